// Runs http-tests/cache-tests, and our own tests in its form, against a proxy.
//
//   node run.mjs RESULTS IDS COMMAND ARGUMENT...
//
// COMMAND starts the proxy; an argument `{origin}` becomes the URL of the tests' origin, which runs in this process. The
// first line that the proxy prints is a JSON object with its address as `listen`. IDS names the tests, separated by
// commas, or is empty for all. RESULTS is the file for the results: `{"id": {"kind": "required", "failure": null}}`; our
// own tests are of the kind `own`.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import process from 'node:process'
import readline from 'node:readline'
import fetch from 'node-fetch'
import * as config from 'http-cache-tests/client/config.mjs'
import { makeCacheTest, testResults } from 'http-cache-tests/client/test.mjs'
import handleConfig from 'http-cache-tests/server/handle-config.mjs'
import handleState from 'http-cache-tests/server/handle-state.mjs'
import handleTest from 'http-cache-tests/server/handle-test.mjs'
import suites from 'http-cache-tests/tests/index.mjs'
import surrogateControl from 'http-cache-tests/tests/surrogate-control.mjs'
import cacheGroups from './cache-groups.mjs'
import targeted from './targeted.mjs'

const [results, ids, command, ...words] = process.argv.slice(2)

const handlers = new Map([['config', handleConfig], ['state', handleState], ['test', handleTest]])
const origin = http.createServer((request, response) => {
  const [kind, ...path] = new URL(request.url, 'http://origin').pathname.split('/').slice(1)
  const handle = handlers.get(kind) ?? (() => response.writeHead(404).end())
  handle(path, request, response)
})
origin.listen(0, '127.0.0.1')
await once(origin, 'listening')

const originUrl = `http://127.0.0.1:${origin.address().port}`
const proxy = spawn(command, words.map(word => word === '{origin}' ? originUrl : word), { stdio: ['ignore', 'pipe', 'inherit'] })
proxy.on('exit', (code, signal) => {
  console.error(`the proxy has ended: ${signal ?? code}`)
  process.exit(1)
})
const [ready] = await once(readline.createInterface(proxy.stdout), 'line')

config.setFetch(fetch)
config.setBaseUrl(`http://${JSON.parse(ready).listen}`)
const wanted = ids === '' ? null : new Set(ids.split(','))
const kinds = new Map()

// Runs the tests of some suites, so many at a time.
async function runSuites (suites, atATime, kind) {
  const tests = suites.flatMap(suite => suite.tests)
  const chosen = tests.filter(test => !test.browser_only && (wanted?.has(test.id) ?? true))
  chosen.forEach(test => kinds.set(test.id, kind ?? test.kind ?? 'required'))
  for (let first = 0; first < chosen.length; first += atATime) {
    await Promise.all(chosen.slice(first, first + atATime).map(makeCacheTest))
  }
}

await runSuites([...suites, surrogateControl], 100)
await runSuites([targeted], 100, 'own')
// A group that one test invalidates may be another's, too.
await runSuites([cacheGroups], 1, 'own')

const outcome = Object.entries(testResults).map(([id, result]) => {
  return [id, { kind: kinds.get(id), failure: result === true ? null : result.join(': ') }]
})
writeFileSync(results, JSON.stringify(Object.fromEntries(outcome), null, 2))
proxy.removeAllListeners('exit')
proxy.kill()
process.exit(0)
