// Reads one channel with every client from npm and every browser at once, and
// prints what each dispatches as lines of JSON: {client, name, id, data}; the
// first line of a client has the name "version". Ends when its input ends.
//
//   node clients.mjs URL CHANNEL
import { readFile } from 'node:fs/promises'
import http from 'node:http'
import { EventSource } from 'eventsource'
import launchDarkly from 'launchdarkly-eventsource'
import WebSocket from 'ws'
import { site, startChromium, startFirefox } from './site.mjs'

const [base, channel] = process.argv.slice(2)
const write = line => process.stdout.write(line + '\n')

// client returns the tell of one client.
function client(name, version) {
  const tell = (event, id, data) => write(JSON.stringify({ client: name, name: event, id, data }))
  tell('version', '', version)
  return tell
}

async function packaged(name) {
  const { version } = JSON.parse(await readFile(new URL(`node_modules/${name}/package.json`, import.meta.url)))
  return version
}

// ---- in Node: readers.js needs but the classes

http.globalAgent = new http.Agent({ keepAlive: true, timeout: 5000 }) // as it is from Node 19 on
globalThis.WebSocket = WebSocket
await import('./readers.js')
const sse = `${base}/v1/sse?channel=${channel}&heartbeat=7s`
const told = ['message', 'rejoin.ready', 'rejoin.state', 'rejoin.gap', 'rejoin.move', 'rejoin.error']
for (const [name, source] of [
  ['eventsource', url => new EventSource(url)],
  ['launchdarkly-eventsource', url => new launchDarkly.EventSource(url)],
  ['launchdarkly-eventsource, readTimeoutMillis', url => new launchDarkly.EventSource(url, { readTimeoutMillis: 60000 })],
]) {
  const tell = client(name, await packaged(name.split(',')[0]))
  const stream = source(sse)
  stream.addEventListener('error', () => {}) // without a listener Node ends the program
  for (const event of told) stream.addEventListener(event, e => tell(event, e.lastEventId ?? '', e.data))
}
readers.WebSocket(base, channel, client('ws', await packaged('ws')))

// ---- in browsers: a page for each client

const origin = await site()
const native = ['EventSource', 'WebSocket', 'fetch, long-poll', 'XMLHttpRequest, long-poll']
const libraries = [
  'event-source-polyfill', 'eventsource-polyfill', 'eventsource-polyfill, polled again on error',
  '@microsoft/fetch-event-source', '@microsoft/fetch-event-source, blocks without data skipped',
  'reconnecting-eventsource', 'react-native-sse', 'react-native-sse, opened again on error',
]

async function inPage(page, reader, name, version) {
  client(name, version)
  await page.exposeFunction('tellAll', write)
  await page.goto(`${origin}/blank`)
  await page.addScriptTag({ url: '/readers.js' })
  await page.evaluate(([reader, name, base, channel]) => {
    readers[reader](base, channel, (event, id, data) => window.tellAll(JSON.stringify({ client: name, name: event, id, data })))
  }, [reader, name, base, channel])
}

async function inChromium() {
  const browser = await startChromium()
  for (const reader of [...native, ...libraries]) {
    // A context of its own, since a browser opens six connections to a server at most.
    const page = await (await browser.newContext()).newPage()
    if (native.includes(reader)) {
      await inPage(page, reader, `Chromium: ${reader}`, browser.version())
    } else {
      await inPage(page, reader, reader, await packaged(reader.split(',')[0]))
    }
  }
  return browser
}

async function inFirefox() {
  const browser = await startFirefox()
  const version = (await browser.version()).replace(/^\w+\//, '')
  for (const reader of native) {
    await inPage(await browser.newPage(), reader, `Firefox: ${reader}`, version)
  }
  return browser
}

const browsers = Promise.all([inChromium(), inFirefox()])
process.stdin.resume().on('end', async () => {
  for (const browser of await browsers) await browser.close()
  process.exit(0)
})
await browsers
