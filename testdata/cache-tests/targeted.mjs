// Tests of targeted cache control (RFC 9213), in the form of cache-tests.

function test (id, name, fields, expected, kind = 'required') {
  return {
    id: `targeted-${id}`,
    name,
    kind,
    requests: [
      { response_headers: fields.map(([name, value]) => [name, value, false]), setup: true, pause_after: true },
      { expected_type: expected }
    ]
  }
}

const long = 'max-age=3600'
const short = 'max-age=1'
const optimal = 'optimal'

export default {
  name: 'Targeted Cache Control',
  id: 'targeted',
  description: 'These tests check how caches use the fields that are for them.',
  tests: [
    test('longer', 'It goes before Cache-Control', [['CDN-Cache-Control', long], ['Cache-Control', short]], 'cached', optimal),
    test('shorter', 'Also where it is shorter', [['CDN-Cache-Control', short], ['Cache-Control', long]], 'not_cached'),
    test('no-store', 'It may forbid storing', [['CDN-Cache-Control', 'no-store'], ['Cache-Control', long]], 'not_cached'),
    test('expires', 'It goes before Expires', [['CDN-Cache-Control', short], ['Expires', 3600], ['Date', 0]], 'not_cached'),
    test('malformed', 'A response with a malformed one is not stored', [['CDN-Cache-Control', 'max-age='], ['Cache-Control', short]], 'not_cached'),
    test('malformed-long', 'A response with a malformed one is not stored', [['CDN-Cache-Control', 'max-age='], ['Cache-Control', long]], 'not_cached'),
    test('own', "The cache's own goes first", [['Thorp-Cache-Control', long], ['CDN-Cache-Control', short]], 'cached', optimal)
  ]
}
