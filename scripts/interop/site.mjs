// What the scripts that need browsers share: Chromium, Firefox, and a site of
// another origin than the server's, which serves this folder.
import { createServer } from 'node:http'
import { readFile } from 'node:fs/promises'
import { chromium } from 'playwright-core'
import puppeteer from 'puppeteer-core'

const types = { js: 'text/javascript', mjs: 'text/javascript', html: 'text/html' }

// site returns the origin. /blank is an empty page; a module may be named
// without its .js, as packages made for bundlers do.
export async function site() {
  const server = createServer(async (req, res) => {
    const path = new URL(req.url, 'http://site').pathname
    try {
      if (path === '/blank' || path === '/favicon.ico') {
        res.setHeader('Content-Type', 'text/html')
        res.end('<!doctype html><title>reader</title>')
        return
      }
      const file = /\.\w+$/.test(path) ? path : `${path}.js`
      const body = await readFile(new URL(`.${file}`, import.meta.url))
      res.setHeader('Content-Type', types[file.split('.').pop()] ?? 'text/plain')
      res.end(body)
    } catch {
      res.statusCode = 404
      res.end()
    }
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${server.address().port}`
}

export const startChromium = () => chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
  ],
})

export const startFirefox = () => puppeteer.launch({
  browser: 'firefox',
  executablePath: process.env.FIREFOX ?? '/usr/bin/firefox-esr',
  headless: true,
})
