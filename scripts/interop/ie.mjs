// Opens ie.html in a Chromium that has lost what Internet Explorer 8 had not, and
// got XDomainRequest. Prints what the page's readers got as lines of JSON:
// {client, name, id, data}. Ends when its input ends.
//
//   node ie.mjs URL CHANNEL
import { site, startChromium } from './site.mjs'

const [base, channel] = process.argv.slice(2)
const browser = await startChromium()
const page = await browser.newPage()
page.on('console', m => m.type() === 'log' && process.stdout.write(m.text() + '\n'))
page.on('pageerror', err => process.stdout.write(JSON.stringify({ client: 'page', name: 'message', data: err.message }) + '\n'))

await page.addInitScript(() => {
  const Request = window.XMLHttpRequest
  for (const name of ['fetch', 'EventSource', 'WebSocket', 'Promise', 'URL', 'URLSearchParams', 'AbortController']) {
    delete window[name]
    if (window[name] !== undefined) throw new Error(`${name} is still there`)
  }
  // As Microsoft describes it: no request headers, no cookies, no status; an
  // answer other than 200 is an error without a body; the answer must allow the
  // page's origin.
  window.XDomainRequest = function () {
    const xhr = new Request()
    this.open = (method, url) => xhr.open(method, url)
    this.send = body => xhr.send(body)
    this.abort = () => xhr.abort()
    xhr.onerror = () => this.onerror()
    xhr.onload = () => {
      if (xhr.status !== 200) return this.onerror()
      this.responseText = xhr.responseText
      this.onload()
    }
  }
})
process.stdin.resume().on('end', async () => {
  await browser.close()
  process.exit(0)
})
await page.goto(`${await site()}/ie.html?${encodeURIComponent(base)}&${channel}`)
