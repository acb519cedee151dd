// The page at /: publishes on a channel and reads it over three transports. It
// uses what any page can use: fetch, EventSource and WebSocket.
//
//   ids         <ms>-<n>; n counts a channel's messages without a hole
//   Pane        what one line has shown, its cursor and its account
//   sse ws poll the three transports; each opens a line and returns its end
//   publish     with a key of its own, so that a repeat cannot publish twice
//   the rest    the channel in the address, and the buttons

const FIRST = 20 // messages from before that a new visitor is shown
const ROWS = 500 // rows that a pane keeps
const CELLS = 40 // ids that a strip shows
const SHOWN = 400 // characters of a payload that are shown
const PATIENCE = 10_000 // ms to wait for an answer that should come at once
const NAMES = 100 // event names that are listened for

const $ = id => document.getElementById(id)
const count = n => n.toLocaleString('en')
const sleep = ms => new Promise(done => setTimeout(done, ms))

// ---- ids

const parse = text => {
  const [ms, n] = text.split('-').map(Number)
  return { text, ms, n }
}
const isAfter = (a, b) => !b || a.ms > b.ms || (a.ms === b.ms && a.n > b.n)

// ---- what all share

let channel = ''
let token = ''
let head = null // the newest id that this page has heard of
let panes = []
const names = new Set(['message']) // EventSource hands over only names that are listened for

// saw raises the head.
function saw(id) {
  if (isAfter(id, head)) head = id
  panes.forEach(pane => pane.touch())
}

// learn remembers an event name. The line of SSE is opened anew to listen for
// it, behind the last message it was handed: nothing is lost by that.
function learn(name) {
  if (!name || names.has(name) || names.size >= NAMES) return false
  names.add(name)
  panes.forEach(pane => pane.transport === sse && pane.stop && pane.connect())
  return true
}

// address is that of a transport for a pane: where it goes on, or begins.
function address(path, pane, more) {
  const query = new URLSearchParams({ channel, ...more })
  if (pane.cursor) query.set('lastEventId', pane.cursor.text)
  else query.set('rewind', FIRST)
  if (token) query.set('token', token)
  return new URL(`${path}?${query}`, document.baseURI)
}

// ask is fetch with a bound on the wait for an answer's head and body.
async function ask(url, options = {}, patience = PATIENCE) {
  const bound = new AbortController()
  const late = setTimeout(() => bound.abort(), patience)
  const abort = () => bound.abort()
  options.signal?.addEventListener('abort', abort)
  try {
    const res = await fetch(url, { cache: 'no-store', ...options, signal: bound.signal })
    // A stream has no end to wait for.
    const stream = res.headers.get('Content-Type') === 'text/event-stream'
    const body = stream ? '' : await res.text()
    if (stream) bound.abort()
    const json = /json/.test(res.headers.get('Content-Type') ?? '')
    return { status: res.status, ok: res.ok, body: json ? JSON.parse(body) : {} }
  } catch {
    return { status: 0, ok: false, body: {} }
  } finally {
    clearTimeout(late)
    options.signal?.removeEventListener('abort', abort)
  }
}

const authorization = () => (token ? { Authorization: `Bearer ${token}` } : {})

const channelPath = () => `v1/channels/${encodeURIComponent(channel)}`

// ---- a pane

const WORDS = {
  joining: 'joining', replaying: 'replaying', live: 'live', stale: 'stale', cut: 'cut',
  reconnecting: 'reconnecting', ended: 'ended', refused: 'refused', absent: 'not served',
}

class Pane {
  constructor(title, how, transport) {
    this.transport = transport
    this.title = title
    const root = $('pane').content.firstElementChild.cloneNode(true)
    const find = selector => root.querySelector(selector)
    this.root = root
    this.view = {
      state: find('.state b'), note: find('.note'), strip: find('.strip'), list: find('.list'), button: find('.line'),
      received: find('.received'), missed: find('.missed'), caught: find('.caught'), lost: find('.lost'),
      cursor: find('.cursor'), check: find('.check'),
    }
    find('h2').textContent = title
    find('.how').textContent = how
    find('.state .unseen').textContent = `${title}: `
    this.view.list.setAttribute('aria-label', `Messages by ${title}`)
    this.view.strip.append(...Array.from({ length: CELLS }, () => document.createElement('i')))
    this.view.button.addEventListener('click', () => (this.stop ? this.cut() : this.join()))
    let top = 0
    this.view.list.addEventListener('scroll', () => {
      const { scrollHeight, scrollTop, clientHeight } = this.view.list
      if (scrollHeight - scrollTop - clientHeight < 40) this.following = true
      else if (scrollTop < top) this.following = false // only a visitor scrolls up
      top = scrollTop
    })
    new ResizeObserver(() => this.touch()).observe(this.view.list)
    $('panes').append(root)
    this.clear()
  }

  // clear forgets the channel.
  clear() {
    this.halt()
    this.cursor = null // the position of this line
    this.due = null // the n that must come next; null: any
    this.joined = false // it has been live before
    this.catching = true // what comes now was published before
    this.tries = 0 // reconnects in a row that came to nothing
    this.received = this.caught = this.gone = this.skipped = this.twice = 0
    this.marks = new Map() // n → how it came
    this.following = true // the list shows its end
    this.view.list.replaceChildren()
    this.state('cut')
  }

  // What a visitor does.

  join() {
    this.tries = 0
    this.connect()
  }

  cut() {
    this.halt()
    this.state('cut')
  }

  // What a transport does.

  connect() {
    this.halt()
    this.catching = true
    this.state(this.tries ? 'reconnecting' : 'joining')
    this.stop = this.transport(this)
  }

  halt() {
    this.stop?.()
    this.stop = null // the open line, or the wait for the next
  }

  ready(cursor) {
    this.tries = 0
    this.cursor = parse(cursor)
    this.due ??= this.cursor.n + 1
    this.touch()
  }

  live() {
    this.catching = false
    this.joined = true
    this.tries = 0
    this.state('live')
  }

  told({ state }) {
    if (state === 'live') return this.live()
    if (state === 'replaying') this.catching = true
    this.state(state, state === 'stale' ? 'The log does not answer the server. The line stays; what is missed comes later.' : '')
  }

  // skips reports whether a message is not the one that must come next.
  skips(m) {
    return this.due !== null && parse(m.id).n > this.due
  }

  message(m, replayed = this.catching) {
    const id = parse(m.id)
    const kind = !replayed ? 'live' : this.joined ? 'replayed' : 'earlier'
    if (this.due !== null && id.n < this.due) this.twice++
    if (this.due !== null && id.n > this.due) this.skipped += id.n - this.due
    this.received++
    if (kind === 'replayed') this.caught++
    this.cursor = id
    this.due = id.n + 1
    this.mark(id.n, kind)
    this.row(kind, messageRow(m, id, kind))
    saw(id)
    learn(m.event)
  }

  // gap tells what cannot be had; cursor is the position it leaves us at.
  gap(g, cursor) {
    const from = parse(g.after)
    if (g.reason === 'reset') {
      this.marks.clear()
      head = g.next ? parse(g.next) : cursor ? parse(cursor) : null
    }
    for (let i = Math.max(1, (g.missed ?? 0) - CELLS); i <= (g.missed ?? 0); i++) this.mark(from.n + i, 'gone')
    this.gone += g.missed ?? 0
    if (cursor) this.cursor = parse(cursor)
    this.due = g.next ? parse(g.next).n : this.cursor.n + 1
    this.row('gap', gapRow(g))
    this.touch()
  }

  ended(id) {
    if (id) this.cursor = parse(id)
    this.halt()
    this.state('ended', 'This channel has ended: nothing more will come.')
  }

  refused(detail) {
    this.halt()
    this.state('refused', detail)
  }

  // again waits and connects; a line that fails again and again waits longer.
  again(ms = 1000, detail = '') {
    this.halt()
    const wait = Math.min(ms * 2 ** this.tries++, 15_000) * (0.5 + Math.random() / 2)
    const timer = setTimeout(() => this.connect(), wait)
    this.stop = () => clearTimeout(timer)
    this.state('reconnecting', detail)
  }

  // failed takes an answer of the server that is not what was asked for.
  failed({ status, body }, retry) {
    const detail = body.detail ?? ''
    if (status === 204) return this.ended()
    if (status === 404) {
      this.halt()
      return this.state('absent', detail || 'The server does not have this transport.')
    }
    if (status === 401 || status === 403) return this.refused(`${detail || 'Not allowed'}. Open this page with #${channel}&token=…`)
    if (status >= 400 && status < 500 && ![408, 426, 429].includes(status)) return this.refused(detail || `The server answers ${status}.`)
    this.again(retry, {
      0: 'The server cannot be reached.',
      426: 'The line was not let through; a proxy in between must pass on WebSockets.',
    }[status] ?? detail)
  }

  // The view.

  state(name, note = '') {
    this.name = name
    this.root.dataset.state = name
    this.view.state.textContent = WORDS[name] ?? name
    this.view.note.textContent = note
    this.view.note.hidden = !note
    this.touch()
  }

  mark(n, kind) {
    this.marks.set(n, kind)
    if (this.marks.size > 4 * CELLS) this.marks.delete(this.marks.keys().next().value)
  }

  row(kind, row) {
    row.className = kind
    this.view.list.append(row)
    if (this.view.list.childElementCount > ROWS) this.view.list.firstElementChild.remove()
  }

  // behind is how many messages this line has still to be given.
  behind() {
    if (this.name === 'live' || !this.cursor || !head) return 0
    return Math.max(0, head.n - this.cursor.n)
  }

  // touch has the pane painted with the next frame.
  touch() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null
      this.paint()
    })
  }

  paint() {
    const { view } = this
    const behind = this.behind()
    view.received.textContent = count(this.received)
    view.missed.textContent = count(this.caught + this.gone + behind)
    view.caught.textContent = count(this.caught)
    view.lost.textContent = count(this.gone)
    view.caught.classList.toggle('some', this.caught > 0)
    view.lost.classList.toggle('some', this.gone > 0)
    view.cursor.textContent = this.cursor?.text ?? 'none yet'
    view.button.textContent = this.stop ? 'Cut' : 'Rejoin'
    const wrong = this.skipped + this.twice
    view.check.textContent = wrong ? `${count(this.skipped)} skipped, ${count(this.twice)} twice`
      : behind ? `${count(behind)} behind` : this.received ? 'each id once, in order' : ''
    view.check.className = wrong ? 'check wrong' : behind ? 'check late' : 'check'
    const first = Math.max(1, (head?.n ?? 0) - CELLS + 1)
    for (let i = 0; i < CELLS; i++) {
      const n = first + i
      const known = head && n <= head.n
      view.strip.children[i].className =
        `cell ${this.marks.get(n) ?? (known && this.cursor && n > this.cursor.n ? 'waiting' : '')}`
    }
    if (this.following) view.list.scrollTop = view.list.scrollHeight
    $('all').textContent = panes.some(pane => pane.stop) ? 'Cut all lines' : 'Rejoin all'
  }
}

function element(name, className, text) {
  const e = document.createElement(name)
  e.className = className
  e.textContent = text
  return e
}

function idElement(id) {
  const code = element('code', 'id', '')
  code.append(element('span', '', `${id.ms}-`), element('b', '', String(id.n)))
  return code
}

function messageRow(m, id, kind) {
  const row = document.createElement('li')
  row.dataset.id = m.id
  row.title = m.time ?? ''
  const long = m.payload.length > SHOWN
  const text = element('span', m.payload ? 'text' : 'text none',
    long ? `${m.payload.slice(0, SHOWN)}… ${count(m.payload.length)} characters` : m.payload || 'empty')
  text.dir = 'auto'
  row.append(idElement(id), text)
  if (m.event) row.append(element('span', 'tag', m.event))
  if (m.key) row.append(element('span', 'tag', `key ${m.key}`))
  if (kind !== 'live') row.append(element('span', 'tag kind', kind))
  return row
}

function gapRow(g) {
  const row = document.createElement('li')
  row.dataset.gap = g.reason
  const many = g.missed === null ? 'Messages' : g.missed === 1 ? '1 message' : `${count(g.missed)} messages`
  const why = g.reason === 'reset' ? `${many} may be gone: the log was lost` : `${many} gone for good`
  const where = `after ${g.after}${g.next ? `, before ${g.next}` : ''}`
  row.append(element('b', '', why), element('span', '', where), element('span', 'tag kind', g.reason))
  return row
}

// ---- the transports: each opens a line for a pane and returns what ends it

function sse(pane) {
  const url = address('v1/sse', pane, { format: 'json' })
  const source = new EventSource(url)
  const hear = (name, what) => source.addEventListener(name, e => what(JSON.parse(e.data), e.lastEventId))
  let open = true
  const end = () => {
    open = false
    source.close()
  }

  const message = async m => {
    // A name that is not listened for was passed over. Learn it, and read again
    // from before it; with nothing to learn, let the pane count what it is not given.
    if (pane.skips(m) && pane.unheard !== m.id) {
      pane.unheard = m.id
      end()
      const { body } = await ask(`${channelPath()}/messages?after=${pane.cursor.text}&limit=100`, { headers: authorization() })
      if (pane.stop !== end) return
      body.messages?.forEach(({ event }) => event && names.size < NAMES && names.add(event))
      return pane.connect()
    }
    pane.message(m)
  }
  names.forEach(name => hear(name, message))
  hear('rejoin.ready', ({ cursor }) => pane.ready(cursor))
  hear('rejoin.gap', (gap, id) => pane.gap(gap, id))
  hear('rejoin.state', state => pane.told(state))
  hear('rejoin.end', ({ id }) => pane.ended(id))
  hear('rejoin.expired', () => pane.refused('The token has run out.'))
  hear('rejoin.error', problem => pane.state('reconnecting', problem.detail))
  source.onerror = async () => {
    if (!open) return
    pane.catching = true
    if (source.readyState === EventSource.CONNECTING) { // the browser comes back by itself
      if (pane.name !== 'reconnecting') pane.state('reconnecting')
      return
    }
    const answer = await ask(url) // EventSource does not say why
    if (open) pane.failed(answer)
  }
  return end
}

function ws(pane) {
  const url = address('v1/ws', pane)
  const asked = url.href
  url.protocol = url.protocol.replace('http', 'ws')
  const socket = new WebSocket(url, 'rejoin.v1')
  let open = true
  let heard = false
  let retry // ms
  let moving
  const late = setTimeout(() => socket.close(), PATIENCE)
  const end = () => {
    open = false
    clearTimeout(late)
    clearTimeout(moving)
    socket.close()
  }

  const frames = {
    ready(f) {
      retry = f.retry
      pane.ready(f.cursor)
    },
    message: f => pane.message(f),
    gap: f => pane.gap(f, f.cursor),
    state: f => pane.told(f),
    move(f) {
      moving = setTimeout(() => pane.connect(), Math.random() * f.within)
    },
    end: f => pane.ended(f.id),
    expired: () => pane.refused('The token has run out.'),
    error: f => pane.state('reconnecting', f.detail),
  }
  socket.onmessage = e => {
    if (!open) return
    heard = true
    clearTimeout(late)
    const frame = JSON.parse(e.data)
    frames[frame.type]?.(frame) // others are to be ignored
  }
  socket.onclose = async e => {
    if (!open) return
    if ([1008, 4001, 4003].includes(e.code)) return pane.refused(e.reason || 'The server closed the line.')
    if (heard) return pane.again(retry)
    const answer = await ask(asked) // WebSocket does not say why
    if (open) pane.failed(answer)
  }
  return end
}

function poll(pane) {
  const stop = new AbortController()
  const { signal } = stop
  run()
  return () => stop.abort()

  async function run() {
    // An answer does not say what was published before it was asked for: the
    // newest id does.
    const newest = await ask(`${channelPath()}/messages?order=desc&limit=1`, { headers: authorization(), signal })
    newest.body.messages?.forEach(m => saw(parse(m.id)))
    const target = head
    const limit = 100
    for (let first = true; !signal.aborted; first = false) {
      // The first is short, so that the pane soon knows where it stands.
      const timeout = first ? 1 : 25
      const begun = performance.now()
      const url = address('v1/poll', pane, { limit, timeout: `${timeout}s` })
      const res = await ask(url, { signal }, timeout * 1000 + PATIENCE)
      if (signal.aborted) return
      if (!res.ok) return pane.failed(res, res.body.retry)
      const { messages, gaps, ended, cursor, state, retry } = res.body
      if (pane.catching && messages.length && pane.name !== 'replaying') pane.told({ state: 'replaying' })
      for (const m of messages) {
        const at = gaps.findIndex(gap => gap.next === m.id)
        if (at >= 0) pane.gap(gaps.splice(at, 1)[0])
        pane.message(m, pane.catching && !isAfter(parse(m.id), target))
      }
      gaps.forEach(gap => pane.gap(gap, cursor))
      pane.ready(cursor)
      if (ended.length) return pane.ended()
      if (state === 'stale') pane.told({ state })
      else if (messages.length < limit && pane.name !== 'live') pane.live()
      // Nothing, and at once: not what was asked for. Do not ask in circles.
      const took = performance.now() - begun
      if (!first && messages.length + gaps.length === 0 && took < 500) await sleep(retry)
    }
  }
}

// ---- publishing

// publish resolves to the message's id, or throws what the server said. A failure
// that may pass is tried again; with the same key that cannot publish twice.
async function publish(text, say) {
  const key = crypto.getRandomValues(new Uint32Array(4)).join('-')
  const where = `${channelPath()}/messages`
  for (let tries = 1; ; tries++) {
    const slow = setTimeout(() => say('No answer yet. A browser opens six connections to a server over HTTP/1.1: close other tabs of this page.'), 3000)
    const { status, ok, body } = await ask(where, {
      method: 'POST', body: text, headers: { 'Content-Type': 'text/plain', 'Idempotency-Key': key, ...authorization() },
    })
    clearTimeout(slow)
    if (ok) {
      if (body.channel === channel) saw(parse(body.id))
      return body.id
    }
    const detail = body.detail ?? (status ? `The server answers ${status}.` : 'The server cannot be reached.')
    if (![0, 429, 503, 504].includes(status) || tries === 6) throw new Error(detail)
    say(`${detail} Trying again.`)
    await sleep(250 * 2 ** tries)
  }
}

let published = 0 // messages named by this page
const nextText = () => `message ${published + 1}`

async function publishAndTell(text) {
  const say = (what, failed = false) => {
    $('told').textContent = what
    $('told').classList.toggle('wrong', failed)
  }
  const begun = performance.now()
  try {
    const id = await publish(text, say)
    say(`Published as ${id} in ${Math.max(1, Math.round(performance.now() - begun))} ms. From a terminal:`)
    return true
  } catch (err) {
    say(err.message, true)
    return false
  }
}

$('publish').addEventListener('submit', e => {
  e.preventDefault()
  const text = $('text').value || nextText()
  if (!$('text').value) published++
  $('text').value = ''
  $('text').placeholder = nextText()
  publishAndTell(text)
})

let auto = 0 // the timer
$('auto').addEventListener('change', e => {
  clearInterval(auto)
  const every = Number(e.target.value)
  $('told').setAttribute('aria-live', every ? 'off' : 'polite') // not ten times a second
  if (!every) return
  let busy = false
  auto = setInterval(async () => {
    if (busy || document.hidden) return // one at a time, and never for nobody
    busy = true
    const text = nextText()
    published++
    $('text').placeholder = nextText()
    await publishAndTell(text)
    busy = false
  }, every)
})

// ---- the channel in the address: #name, #channel=name, either with &token=…

function readAddress() {
  let name = ''
  for (const part of location.hash.slice(1).split('&')) {
    let text = part
    try {
      text = decodeURIComponent(part)
    } catch { /* as it stands */ }
    if (text.startsWith('token=')) keepToken(text.slice('token='.length))
    else if (text) name = text.replace(/^channel=/, '')
  }
  return name
}

// keepToken keeps it for this tab alone, and out of an address that is shared.
function keepToken(text) {
  token = text
  try {
    sessionStorage.setItem('token', text)
  } catch { /* then for this page alone */ }
}

const isChannel = name => /^[A-Za-z0-9_.:~@=+-]{1,200}$/.test(name) && name !== '.' && name !== '..'

function randomChannel() {
  const letters = 'abcdefghjkmnpqrstuvwxyz23456789'
  return 'demo-' + Array.from(crypto.getRandomValues(new Uint8Array(8)), b => letters[b % letters.length]).join('')
}

// enter opens the page on a channel.
function enter(name) {
  const fault = isChannel(name) ? '' : 'A channel has 1 to 200 letters, digits or _ . : ~ @ = + -'
  $('channel').setCustomValidity(fault)
  if (fault) {
    $('channel').value = name
    $('channel').reportValidity()
    if (channel) return
    name = randomChannel()
  }
  history.replaceState(null, '', '#' + name.replace(/^(?=(channel|token)=)/, 'channel='))
  $('channel').value = name
  $('trim').hidden = !name.startsWith('demo-')
  const url = new URL(`v1/channels/${encodeURIComponent(name)}/messages`, document.baseURI)
  $('curl').textContent = `curl -d hello ${token ? '-H "Authorization: Bearer $TOKEN" ' : ''}${url}`
  if (name === channel) { // perhaps with another token
    panes.forEach(pane => pane.name === 'refused' && pane.join())
    return
  }
  channel = name
  head = null
  panes.forEach(pane => pane.clear())
  panes.forEach(pane => pane.join())
}

$('where').addEventListener('submit', e => {
  e.preventDefault()
  enter($('channel').value)
})
$('channel').addEventListener('input', () => $('channel').setCustomValidity(''))
$('channel').addEventListener('change', () => enter($('channel').value))
window.addEventListener('hashchange', () => enter(readAddress() || randomChannel()))

// ---- the other buttons

$('all').addEventListener('click', () => {
  const cut = panes.some(pane => pane.stop)
  panes.forEach(pane => cut ? pane.stop && pane.cut() : pane.join())
})

$('trim').addEventListener('click', async () => {
  const { ok, status, body } = await ask(channelPath(), { method: 'DELETE', headers: authorization() })
  $('told').textContent = ok ? 'The log is empty. A line that missed something will be told so.'
    : body.detail ?? (status ? `The server answers ${status}.` : 'The server cannot be reached.')
  $('told').classList.toggle('wrong', !ok)
})

function copies(button, text) {
  const label = button.textContent
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text())
      button.textContent = 'Copied'
    } catch { // only over HTTPS and on this machine
      button.textContent = 'Not allowed'
    }
    setTimeout(() => (button.textContent = label), 1500)
  })
}
copies($('share'), () => location.href)
copies($('copy'), () => $('curl').textContent)

// ---- begin

try {
  token = sessionStorage.getItem('token') ?? ''
} catch { /* none kept */ }
$('text').placeholder = nextText()
panes = [
  new Pane('Server-Sent Events', "the browser's EventSource", sse),
  new Pane('WebSocket', 'frames of JSON', ws),
  new Pane('Long-poll', 'fetch, again and again', poll),
]
enter(readAddress() || randomChannel())
$('text').focus({ preventScroll: true })
