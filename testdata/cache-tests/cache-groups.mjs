// Tests of HTTP Cache Groups (RFC 9875), in the form of cache-tests.

const fresh = ['Cache-Control', 'max-age=3600']

// A response in some groups is stored; an exchange follows; is the stored response used then?
function test (id, name, groups, exchange, expected, kind = 'required') {
  return {
    id: `groups-${id}`,
    name,
    kind,
    requests: [
      { filename: 'a', response_headers: [fresh, ...groups.map(value => ['Cache-Groups', value])], setup: true },
      { filename: 'b', request_body: 'abc', response_headers: [], setup: true, ...exchange },
      { filename: 'a', response_headers: [fresh], expected_type: expected }
    ]
  }
}

function post (value) {
  return { request_method: 'POST', response_headers: [['Cache-Group-Invalidation', value]] }
}

export default {
  name: 'Cache Groups',
  id: 'cache-groups',
  description: 'These tests check how caches invalidate groups of stored responses.',
  tests: [
    test('stored', 'A response in a group is reused', ['"one"'], post('"two"'), 'cached', 'optimal'),
    test('invalidated', 'A cache invalidates the responses of a group', ['"one"'], post('"one"'), 'not_cached'),
    test('of-several', 'One group of several is enough', ['"one", "two"'], post('"zero", "two"'), 'not_cached'),
    test('on-lines', 'Groups may stand on several lines', ['"one"', '"two"'], post('"two"'), 'not_cached'),
    test('parameters', 'Parameters are ignored', ['"one";a=b'], post('"one";c=d'), 'not_cached'),
    test('spaces', 'A space is a part of a name', ['"one two"'], post('"one"'), 'cached', 'optimal'),
    test('case', 'The case of a name is a part of it', ['"One"'], post('"one"'), 'cached', 'optimal'),
    test('put', 'Every unsafe method invalidates', ['"one"'], { ...post('"one"'), request_method: 'PUT' }, 'not_cached'),
    test('safe', 'A safe method invalidates nothing', ['"one"'],
      { response_headers: [['Cache-Group-Invalidation', '"one"']], request_body: undefined }, 'cached', 'optimal')
  ]
}
