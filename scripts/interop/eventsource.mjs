// Reads an event stream with Chromium's own EventSource, from a page of another
// origin, and prints each event as one line of JSON: {name, id, data}; "open"
// and "error" have the readyState as data. Ends when its input ends.
//
//   node eventsource.mjs URL EVENT...
import { createServer } from 'node:http'
import { chromium } from 'playwright-core'

const [url, ...names] = process.argv.slice(2)

const site = createServer((_, res) => {
  res.setHeader('Content-Type', 'text/html')
  res.end('<!doctype html><title>reader</title>')
})
await new Promise(resolve => site.listen(0, '127.0.0.1', resolve))

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
  ],
})
process.stdin.resume().on('end', async () => {
  await browser.close()
  process.exit(0)
})

const page = await browser.newPage()
await page.exposeFunction('tell', line => process.stdout.write(line + '\n'))
await page.goto(`http://127.0.0.1:${site.address().port}/`)
await page.evaluate(([url, names]) => {
  const source = new EventSource(url)
  const tell = (name, id, data) => window.tell(JSON.stringify({ name, id, data }))
  source.onopen = () => tell('open', '', String(source.readyState))
  source.onerror = () => tell('error', '', String(source.readyState))
  for (const name of ['message', ...names]) {
    source.addEventListener(name, e => tell(name, e.lastEventId, e.data))
  }
}, [url, names])
