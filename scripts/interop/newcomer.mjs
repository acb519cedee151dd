// A visitor's first ten seconds: opens the page at /, types a message, and sees it
// in each of its three panes. Exits with 1 if not.
//
//   node newcomer.mjs URL
import { chromium } from 'playwright-core'

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
  ],
})
const page = await browser.newPage()
await page.goto(process.argv[2])
await page.locator('#text').fill('hello from a newcomer')
await page.locator('#text').press('Enter')
await page.waitForFunction(() => [...document.querySelectorAll('.pane')].length === 3 &&
  [...document.querySelectorAll('.pane')].every(pane => pane.innerText.includes('hello from a newcomer')))
await browser.close()
