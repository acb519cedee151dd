// Uses the page at / with Chromium as a visitor would, and checks what its three
// panes show: each id once and in order, whatever was cut. Exits with 1 at the
// first thing that is wrong. The server must keep 20 messages a channel, in
// memory: at the line "restart" its owner kills it and starts another at the same
// address, then writes a line.
//
//   node page.mjs URL
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chromium } from 'playwright-core'

const base = process.argv[2]
const KEPT = 20
const PANES = ['Server-Sent Events', 'WebSocket', 'Long-poll']

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
  ],
})
const wrong = [] // what the browser complains of

// visit opens the page and waits until all lines are live.
async function visit(hash = '', prepare = () => {}) {
  const page = await browser.newPage()
  page.on('pageerror', err => wrong.push(err.message))
  page.on('console', m => /Content Security Policy/.test(m.text()) && wrong.push(m.text()))
  await prepare(page)
  await page.goto(`${base}/${hash}`)
  return page
}

const button = (page, i) => page.locator('.pane .line').nth(i)

// shows waits until each pane has the state, or any of those it may have.
const shows = (page, ...states) => page.waitForFunction(
  states => [...document.querySelectorAll('.pane')].every((pane, i) => [states[i] ?? states[0]].includes(pane.dataset.state)),
  states)

// account is what a pane shows.
const account = (page, i) => page.locator('.pane').nth(i).evaluate(pane => ({
  ids: [...pane.querySelectorAll('li[data-id]')].map(row => row.dataset.id),
  replayed: [...pane.querySelectorAll('li.replayed')].map(row => row.dataset.id),
  gaps: [...pane.querySelectorAll('li[data-gap]')].map(row => [
    row.dataset.gap, row.previousElementSibling?.dataset.id ?? null, row.nextElementSibling?.dataset.id ?? null, row.innerText]),
  cursor: pane.querySelector('.cursor').textContent,
  numbers: ['received', 'missed', 'caught', 'lost'].map(name => Number(pane.querySelector(`.${name}`).textContent.replace(',', ''))),
  check: pane.querySelector('.check').textContent,
}))

// has waits until a pane has shown the id last.
const has = (page, i, id) => page.waitForFunction(
  ([i, id]) => document.querySelectorAll('.pane')[i].querySelector('.cursor').textContent === id, [i, id])

// type publishes as a visitor does, and returns the ids.
async function type(page, n, what) {
  const ids = []
  for (let i = 1; i <= n; i++) {
    const [answer] = await Promise.all([
      page.waitForResponse(res => res.request().method() === 'POST'),
      page.locator('#text').fill(`${what} ${i}`).then(() => page.locator('#text').press('Enter')),
    ])
    assert.equal(answer.status(), 201)
    ids.push((await answer.json()).id)
  }
  return ids
}

// ---- a visitor comes: a channel of her own, all lines live

const page = await visit()
await shows(page, 'live')
const hash = new URL(page.url()).hash
const channel = hash.slice(1)
assert.match(channel, /^demo-[a-z0-9]{8}$/)
assert.equal(await page.locator('#curl').textContent(), `curl -d hello ${base}/v1/channels/${channel}/messages`)
assert.deepEqual(await page.locator('.pane h2').allTextContents(), PANES)

const all = await type(page, 5, 'before')

// ---- each line is cut while the others go on, then joins again

for (const i of PANES.keys()) {
  await has(page, i, all.at(-1))
  await button(page, i).click()
  await shows(page, ...PANES.map((_, j) => (j === i ? 'cut' : 'live')))
  const missed = await type(page, 4, `${PANES[i]} is cut`)
  await page.waitForFunction(i => document.querySelectorAll('.pane')[i].querySelector('.missed').textContent === '4', i)
  assert.deepEqual((await account(page, i)).ids, all, `${PANES[i]}: nothing comes over a line that is cut`)
  all.push(...missed)
  await button(page, i).click()
  await has(page, i, all.at(-1))
  await shows(page, 'live')
  const a = await account(page, i)
  assert.deepEqual(a.replayed, missed, `${PANES[i]}: what was missed is shown as replayed`)
  assert.deepEqual(a.numbers, [all.length, 4, 4, 0], PANES[i])
}
for (const i of PANES.keys()) {
  await has(page, i, all.at(-1))
  const a = await account(page, i)
  assert.deepEqual(a.ids, all, `${PANES[i]}: each id once, in order`)
  assert.match(a.check, /each id once/)
  assert.equal(a.gaps.length, 0)
}

// ---- an event name that nobody listens for yet reaches all panes

const named = await fetch(`${base}/v1/channels/${channel}/messages?event=tick`, { method: 'POST', body: 'a named one' })
all.push((await named.json()).id)
all.push(...await type(page, 1, 'after the named one'))
for (const i of PANES.keys()) {
  await has(page, i, all.at(-1))
  assert.deepEqual((await account(page, i)).ids, all, `${PANES[i]}: the named event, once`)
}

// ---- ten a second while lines are cut and joined

await page.locator('input[value="100"]').check()
const count = page.waitForFunction(() => Number(document.querySelector('.received').textContent) > 60)
for (let round = 0; round < 3; round++) {
  for (const i of PANES.keys()) {
    await button(page, i).click()
    await button(page, i).click()
  }
  await shows(page, 'live')
}
await count
await page.locator('input[value="0"]').check()
await page.waitForFunction(() => {
  const cursors = [...document.querySelectorAll('.cursor')].map(e => e.textContent)
  return cursors.every(c => c === cursors[0])
})
const [first, ...others] = await Promise.all([...PANES.keys()].map(i => account(page, i)))
first.ids.forEach((id, i) => assert.equal(Number(id.split('-')[1]), i + 1, 'no hole'))
others.forEach(a => assert.deepEqual(a.ids, first.ids))
const before = first.ids

// ---- more is missed than the log keeps: a gap in its place, with its number

await page.locator('#all').click()
await shows(page, 'cut')
const last = before.at(-1)
const many = await type(page, KEPT + 7, 'too much')
await page.locator('#all').click()
for (const [i, name] of PANES.entries()) {
  await has(page, i, many.at(-1))
  await shows(page, 'live')
  const a = await account(page, i)
  assert.deepEqual(a.ids, [...before, ...many.slice(-KEPT)], `${name}: what is kept, once`)
  assert.equal(a.gaps.length, 1, name)
  const [reason, above, below, text] = a.gaps[0]
  assert.deepEqual([reason, above, below], ['trimmed', last, many.at(-KEPT)], `${name}: the gap stands in its place`)
  assert.match(text, /^7 messages gone for good/)
  assert.equal(a.numbers[3], 7, `${name}: gone for good`)
  assert.match(a.check, /each id once/)
}

// ---- a second visitor, by the link, is shown the newest

const other = await visit(hash)
await shows(other, 'live')
for (const [i, name] of PANES.entries()) {
  await has(other, i, many.at(-1))
  assert.deepEqual((await account(other, i)).ids, many.slice(-KEPT), name)
}
await other.close()

// ---- the server dies, and its log with it: told, and on it goes

console.log('restart')
await once(process.stdin, 'data')
await page.waitForFunction(() => document.querySelectorAll('[data-gap=reset]').length === 3)
await shows(page, 'live')
const again = await type(page, 3, 'a new log')
for (const [i, name] of PANES.entries()) {
  await has(page, i, again.at(-1))
  const a = await account(page, i)
  assert.deepEqual(a.ids.slice(-4), [many.at(-1), ...again], name)
  assert.match(a.check, /each id once/, name)
}
await page.close()

// ---- a transport that is not there is said so, and not asked for again

let asked = 0
const poor = await visit('', page => page.route('**/v1/poll?**', route => {
  asked++
  return route.fulfill({ status: 404, contentType: 'application/problem+json', body: '{"detail":"no polls here"}' })
}))
await shows(poor, 'live', 'live', 'absent')
assert.equal(await poor.locator('.pane .note').nth(2).textContent(), 'no polls here')
const kept = await type(poor, 3, 'meanwhile')
assert.equal(asked, 1)

// ---- what a cut line missed is deleted: a gap with nothing behind it yet

await has(poor, 1, kept.at(-1))
await button(poor, 1).click()
await type(poor, 2, 'deleted')
await poor.locator('#trim').click()
await poor.locator('#told', { hasText: 'The log is empty' }).waitFor()
await button(poor, 1).click()
await shows(poor, 'live', 'live', 'absent')
const rest = await type(poor, 1, 'after that')
await has(poor, 1, rest[0])
const told = await account(poor, 1)
assert.deepEqual(told.ids, [...kept, ...rest])
assert.deepEqual(told.gaps.map(gap => gap.slice(0, 3)), [['trimmed', kept.at(-1), rest[0]]])
assert.match(told.gaps[0][3], /^2 messages gone for good/)
assert.match(told.check, /each id once/)
await poor.close()

// ---- a token is used and not left in the address; a name that cannot be is refused

const seen = []
const known = await visit('#news&token=abc.def', page => page.on('request', r => seen.push(r)))
await shows(known, 'live')
await type(known, 1, 'with a token')
assert.equal(new URL(known.url()).hash, '#news')
for (const r of seen) {
  const url = new URL(r.url())
  if (['/v1/sse', '/v1/poll'].includes(url.pathname)) assert.equal(url.searchParams.get('token'), 'abc.def')
  if (r.method() === 'POST') assert.equal(r.headers().authorization, 'Bearer abc.def')
}
assert(!(await known.locator('#curl').textContent()).includes('abc'))
await known.locator('#channel').fill('no/slash')
await known.locator('#channel').press('Enter')
assert.equal(new URL(known.url()).hash, '#news')
assert(await known.locator('#channel').evaluate(e => !e.checkValidity()))

assert.deepEqual(wrong, [])
await browser.close()
process.exit(0)
