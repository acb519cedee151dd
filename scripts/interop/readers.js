// Readers that run in a page. Each takes the server's address and a channel, and
// reads for good; tell(name, id, data) is called for each message, under its
// event's name, and for what is told beside messages, as rejoin.<name>.
// What a library does not do by itself, it is not helped with here, but for
// readers whose name says so.

const TOLD = ['rejoin.ready', 'rejoin.state', 'rejoin.gap', 'rejoin.move', 'rejoin.error']
const HEARTBEAT = 'heartbeat=7s'

const sse = (base, channel) => `${base}/v1/sse?channel=${channel}&${HEARTBEAT}`

// listen hears all that an EventSource of any make dispatches.
function listen(source, tell) {
  for (const name of ['message', ...TOLD]) {
    source.addEventListener(name, e => tell(name, e.lastEventId ?? '', e.data))
  }
  return source
}

const script = src => new Promise((resolve, reject) => {
  const element = document.createElement('script')
  element.onload = resolve
  element.onerror = reject
  element.src = src
  document.head.append(element)
})

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

// poll polls by ask(url), which resolves to the text of a 200, and rejects else.
async function poll(base, channel, tell, ask) {
  let cursor = ''
  let retry = 300
  for (;;) {
    try {
      const answer = JSON.parse(await ask(`${base}/v1/poll?channel=${channel}&timeout=5s&lastEventId=${cursor}`))
      if (!cursor) tell('rejoin.ready', answer.cursor, '')
      for (const gap of answer.gaps) tell('rejoin.gap', '', JSON.stringify(gap))
      for (const m of answer.messages) tell(m.event ?? 'message', m.id, m.payload)
      cursor = answer.cursor
      retry = answer.retry
    } catch {
      await sleep(retry)
    }
  }
}

globalThis.readers = {
  // It reconnects by itself. What a browser takes for final (CLOSED), rarely a
  // connection that breaks at a bad moment, the page opens again where it was.
  'EventSource': async (base, channel, tell) => {
    let last = ''
    const heard = (name, id, data) => tell(name, last = id || last, data)
    const open = () => {
      const source = listen(new EventSource(`${sse(base, channel)}&lastEventId=${last}`), heard)
      source.onerror = () => {
        tell('error', '', String(source.readyState))
        if (source.readyState === EventSource.CLOSED) setTimeout(open, 300)
      }
    }
    open()
  },

  'event-source-polyfill': async (base, channel, tell) => {
    await script('/node_modules/event-source-polyfill/src/eventsource.js')
    listen(new EventSourcePolyfill(sse(base, channel)), tell)
  },

  'eventsource-polyfill': async (base, channel, tell) => {
    window._eventSourceImportPrefix = 'Old'
    await script('/node_modules/eventsource-polyfill/dist/eventsource.js')
    listen(new OldEventSource(sse(base, channel)), tell)
  },

  // It closes itself for good when a line breaks off, but keeps the last id.
  'eventsource-polyfill, polled again on error': async (base, channel, tell) => {
    window._eventSourceImportPrefix = 'Old'
    await script('/node_modules/eventsource-polyfill/dist/eventsource.js')
    const source = listen(new OldEventSource(sse(base, channel)), tell)
    source.addEventListener('error', () => setTimeout(() => {
      if (source.readyState === source.CLOSED) {
        source.readyState = source.CONNECTING
        source.poll()
      }
    }, 300))
  },

  '@microsoft/fetch-event-source': async (base, channel, tell) => {
    const { fetchEventSource } = await import('/node_modules/@microsoft/fetch-event-source/lib/esm/index.js')
    fetchEventSource(sse(base, channel), {
      openWhenHidden: true,
      onmessage: e => tell(e.event || 'message', e.id, e.data),
    })
  },

  // It dispatches blocks that have no data, such as the one that only sets retry.
  '@microsoft/fetch-event-source, blocks without data skipped': async (base, channel, tell) => {
    const { fetchEventSource } = await import('/node_modules/@microsoft/fetch-event-source/lib/esm/index.js')
    fetchEventSource(sse(base, channel), {
      openWhenHidden: true,
      onmessage: e => (e.id || e.event) && tell(e.event || 'message', e.id, e.data),
    })
  },

  'reconnecting-eventsource': async (base, channel, tell) => {
    const { default: Reconnecting } = await import('/node_modules/reconnecting-eventsource/build/esm/reconnecting-eventsource.js')
    const source = listen(new Reconnecting(sse(base, channel)), tell)
    source.onmessage = () => {} // without one it calls undefined
  },

  'react-native-sse': async (base, channel, tell) => {
    const { default: Native } = await import('/node_modules/react-native-sse/src/EventSource.js')
    listen(new Native(sse(base, channel)), tell)
  },

  // It does not come back after a broken line, but keeps the last id.
  'react-native-sse, opened again on error': async (base, channel, tell) => {
    const { default: Native } = await import('/node_modules/react-native-sse/src/EventSource.js')
    const source = listen(new Native(sse(base, channel)), tell)
    source.addEventListener('error', () => setTimeout(() => source.open(), 300))
  },

  'WebSocket': async (base, channel, tell) => {
    let cursor = ''
    let retry = 300
    const open = () => {
      const socket = new WebSocket(`${base.replace('http', 'ws')}/v1/ws?channel=${channel}&${HEARTBEAT}&lastEventId=${cursor}`)
      socket.onmessage = e => {
        const frame = JSON.parse(e.data)
        if (frame.type === 'message') {
          cursor = frame.id
          tell(frame.event ?? 'message', frame.id, frame.payload)
          return
        }
        if (frame.type === 'ready') retry = frame.retry
        if (frame.cursor) cursor = frame.cursor
        tell(`rejoin.${frame.type}`, '', e.data)
      }
      socket.onerror = () => {} // close comes too; without a listener Node ends the program
      socket.onclose = () => setTimeout(open, retry)
    }
    open()
  },

  'fetch, long-poll': (base, channel, tell) => poll(base, channel, tell, async url => {
    const res = await fetch(url)
    if (!res.ok) throw new Error(res.status)
    return res.text()
  }),

  'XMLHttpRequest, long-poll': (base, channel, tell) => poll(base, channel, tell, url => new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest()
    xhr.open('GET', url)
    xhr.onload = () => (xhr.status === 200 ? resolve(xhr.responseText) : reject(new Error(xhr.status)))
    xhr.onerror = reject
    xhr.send()
  })),
}
