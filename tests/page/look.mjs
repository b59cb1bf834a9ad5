// Opens a page in headless Chromium at several widths, light and dark, on paper, and without scripts. Prints what it measures as
// JSON: an object for each view. The tests decide what is right.
//
//   node look.mjs PAGE AXE PICTURES HOME [WIDTH HEIGHT]
//
// PICTURES is the beginning of the names of the pictures; Chromium keeps its profile in HOME. With WIDTH and HEIGHT it only
// writes one picture, PICTURES.png, of the upper part of the page. It is spoken to in the DevTools
// protocol, https://chromedevtools.github.io/devtools-protocol/, through a pipe: no port, and no package.
import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const [page, axe, pictures, home, wide, high] = process.argv.slice(2)
const url = pathToFileURL(page).href
const ruler = readFileSync(axe, 'utf8')

// A sheet of A4 between its usual margins is 718 pixels wide.
const ALL = [
  { name: 'phone-light', width: 360, height: 800, scheme: 'light', keys: true },
  { name: 'phone-dark', width: 360, height: 800, scheme: 'dark' },
  { name: 'large-phone-light', width: 500, height: 900, scheme: 'light', rare: true },
  { name: 'tablet-light', width: 768, height: 1024, scheme: 'light', rare: true },
  { name: 'tablet-dark', width: 768, height: 1024, scheme: 'dark', rare: true },
  { name: 'desk-light', width: 1280, height: 900, scheme: 'light', keys: true },
  { name: 'desk-dark', width: 1280, height: 900, scheme: 'dark' },
  { name: 'phone-opened', width: 360, height: 800, scheme: 'light', opened: true },
  { name: 'large-phone-opened', width: 500, height: 900, scheme: 'dark', opened: true, rare: true },
  { name: 'tablet-opened', width: 768, height: 1024, scheme: 'light', opened: true, rare: true },
  { name: 'desk-opened', width: 1280, height: 900, scheme: 'light', opened: true, rare: true },
  { name: 'paper', width: 718, height: 1046, scheme: 'light', media: 'print' },
  { name: 'no-script', width: 1280, height: 900, scheme: 'light', scripts: false },
]
// The second tier of the tests looks at all of them.
const VIEWS = ALL.filter((view) => !view.rare || process.env.FATHOM_EFFORT === 'all')

const chromium = spawn('chromium', [
  '--headless=new', '--remote-debugging-pipe', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
  '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-extensions',
  '--disable-sync', '--host-resolver-rules=MAP * ~NOTFOUND', `--user-data-dir=${home}/profile`,
], { stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'], env: { ...process.env, HOME: home, XDG_RUNTIME_DIR: home } })
const [, , log, to, from] = chromium.stdio

let said = ''
log.on('data', (piece) => { said = (said + piece).slice(-4000) })
const fail = (why) => {
  process.stderr.write(`look: ${why.stack ?? why}\n${said}`)
  chromium.kill('SIGKILL')
  process.exit(1)
}
let done = false
chromium.on('error', fail)
chromium.on('exit', (status) => { if (!done) fail(`chromium has ended: ${status}`) })
setTimeout(() => fail('no end after five minutes'), 300_000).unref()

// A message is JSON with a NUL behind it. One with an id answers a question; one without tells of an event.
let asked = 0
const answers = new Map()
const listeners = new Map()
let pieces = []
from.on('data', (data) => {
  for (let end; (end = data.indexOf(0)) >= 0; data = data.subarray(end + 1)) {
    const message = JSON.parse(Buffer.concat([...pieces, data.subarray(0, end)]).toString())
    pieces = []
    if (message.id === undefined) {
      listeners.get(message.sessionId)?.(message.method, message.params)
    } else {
      const { resolve, reject } = answers.get(message.id)
      answers.delete(message.id)
      message.error ? reject(new Error(JSON.stringify(message.error))) : resolve(message.result)
    }
  }
  pieces.push(data)
})
const send = (method, params = {}, sessionId = undefined) => new Promise((resolve, reject) => {
  answers.set(++asked, { resolve, reject })
  to.write(JSON.stringify({ id: asked, method, params, sessionId }) + '\0')
})

// What follows is run within the page.

const measure = (width) => {
  const all = [...document.body.querySelectorAll('*')]
  const style = (element) => getComputedStyle(element)
  const shown = (element) => `<${element.localName} class="${element.getAttribute('class') ?? ''}"> ${element.textContent.trim().slice(0, 40)}`
  const scrolls = (element) => {
    for (let at = element; at && at !== document.body; at = at.parentElement) {
      if (style(at).overflowX !== 'visible') return true
    }
    return false
  }
  // Letters, in pixels of the screen: those of a figure are scaled with it.
  const letters = (element) => {
    const size = parseFloat(style(element).fontSize)
    return element instanceof SVGGraphicsElement ? size * element.getScreenCTM().a : size
  }
  const letter = (node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== ''
  const texts = []
  const broken = []
  const range = document.createRange()
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement
    if (!letter(node) || !element.checkVisibility() || element.closest('title, desc, .skip') !== null) continue
    range.selectNodeContents(node)
    // What a region that scrolls has moved out of sight does not lie on anything.
    const clip = element.closest('.scroll')?.getBoundingClientRect()
    for (const box of range.getClientRects()) {
      const [left, right] = clip ? [Math.max(box.left, clip.left), Math.min(box.right, clip.right)] : [box.left, box.right]
      if (right - left > 1) texts.push({ left, right, top: box.top, bottom: box.bottom, text: node.data.trim().slice(0, 30), node })
    }
    // A plain word in two lines.
    for (const { 0: word, index } of node.data.matchAll(/(?<![^\s])[A-Za-z]{2,15}(?![^\s,.;:])/g)) {
      range.setStart(node, index)
      range.setEnd(node, index + word.length)
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) broken.push(`${word} in <${element.localName} class="${element.className}">`)
    }
  }
  texts.sort((a, b) => a.top - b.top)
  const overlaps = []
  for (let at = 0; at < texts.length && overlaps.length < 5; at++) {
    const a = texts[at]
    for (let next = at + 1; next < texts.length && texts[next].top < a.bottom - 3; next++) {
      const b = texts[next]
      const [across, down] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - b.top]
      if (a.node !== b.node && across > 1.5 && down > 4) overlaps.push(`'${a.text}' and '${b.text}'`)
    }
  }
  const written = all.filter((element) => element.checkVisibility() && [...element.childNodes].some(
    (node) => node.nodeType === Node.TEXT_NODE && node.data.trim()) && element.closest('svg title, svg desc') === null)
  return {
    title: document.title,
    language: document.documentElement.lang,
    text: document.body.innerText,
    back: style(document.body).backgroundColor,
    headings: all.filter((element) => /^h[1-6]$/.test(element.localName)).map((h) => `${h.localName} ${h.innerText}`),
    width: document.documentElement.scrollWidth,
    wider: all.filter((element) => element.getBoundingClientRect().right > width + 1 && !scrolls(element)).slice(0, 5).map(shown),
    // What would have to be moved to be read.
    cut: all.filter((element) => element.checkVisibility() && style(element).overflowX !== 'visible' &&
      element.scrollWidth > element.clientWidth + 1 && !(element instanceof SVGElement)).slice(0, 5).map(shown),
    smallest: Math.min(...written.map(letters)),
    figures: document.querySelectorAll('figure').length,
    overlaps,
    broken: broken.slice(0, 5),
    // What a page that needs nothing beside it has no use for.
    foreign: [...document.querySelectorAll('iframe, object, embed, link, base, img, script[src], form')].map(shown),
  }
}

const stops = () => {
  window.stops = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
    .filter((element) => element.tabIndex >= 0 && !element.disabled && element.checkVisibility())
  return window.stops.map((element) => `<${element.localName}> ${element.getAttribute('aria-label') ?? element.innerText}`.slice(0, 80))
}

const focused = () => {
  const at = document.activeElement
  const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(at)
  const { top, bottom, width } = at.getBoundingClientRect()
  return {
    stop: window.stops.indexOf(at),
    marked: (outlineStyle !== 'none' && parseFloat(outlineWidth) > 0) || boxShadow !== 'none',
    inView: bottom > 0 && top < innerHeight && width > 0,
    moves: at.scrollWidth > at.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(at).overflowX),
  }
}

const judge = async () => {
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
  const { violations, passes } = await window.axe.run(document, { runOnly: tags })
  const node = ({ target, failureSummary }) => `${target.join(' ')}: ${failureSummary.replace(/\s+/g, ' ')}`
  const shown = ({ id, nodes }) => `${id} (${nodes.length}): ${nodes.slice(0, 3).map(node).join('; ')}`
  return { violations: violations.map(shown), passes: passes.map(({ id }) => id) }
}

const KEYS = { Tab: 9, ArrowRight: 39 }

async function look(view) {
  const { targetId } = await send('Target.createTarget', { url: 'about:blank' })
  const { sessionId } = await send('Target.attachToTarget', { targetId, flatten: true })
  const ask = (method, params) => send(method, params, sessionId)
  const seen = { view: view.name, window: view.width, complaints: [], requests: [], dialogs: [] }
  let loaded
  const load = new Promise((resolve) => { loaded = resolve })
  const events = {
    'Page.loadEventFired': () => loaded(),
    'Page.javascriptDialogOpening': ({ message }) => {
      seen.dialogs.push(message)
      ask('Page.handleJavaScriptDialog', { accept: false })
    },
    'Runtime.consoleAPICalled': ({ type, args }) => seen.complaints.push(`${type}: ${args.map((arg) => arg.value ?? arg.description)}`),
    'Runtime.exceptionThrown': ({ exceptionDetails: { text, exception } }) => seen.complaints.push(`${text} ${exception?.description}`),
    'Log.entryAdded': ({ entry: { level, text } }) => seen.complaints.push(`${level}: ${text}`),
    'Network.requestWillBeSent': ({ request }) => seen.requests.push(request.url),
    'Network.webSocketCreated': ({ url }) => seen.requests.push(url),
  }
  listeners.set(sessionId, (method, params) => events[method]?.(params))
  const run = async (f, ...args) => {
    const expression = `(${f})(${args.map((arg) => JSON.stringify(arg)).join()})`
    const { result, exceptionDetails } = await ask('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true })
    if (exceptionDetails) throw new Error(`${exceptionDetails.text} ${exceptionDetails.exception?.description}`)
    return result.value
  }
  const press = async (key) => {
    const stroke = { key, code: key, windowsVirtualKeyCode: KEYS[key] }
    await ask('Input.dispatchKeyEvent', { type: 'rawKeyDown', ...stroke })
    await ask('Input.dispatchKeyEvent', { type: 'keyUp', ...stroke })
  }

  for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await ask(`${domain}.enable`)
  const { width, height } = view
  await ask('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 600 })
  const features = [{ name: 'prefers-color-scheme', value: view.scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }]
  await ask('Emulation.setEmulatedMedia', { media: view.media ?? 'screen', features })
  await ask('Emulation.setFocusEmulationEnabled', { enabled: true })
  if (view.scripts === false) await ask('Emulation.setScriptExecutionDisabled', { value: true })
  const { errorText } = await ask('Page.navigate', { url })
  if (errorText) throw new Error(`${url}: ${errorText}`)
  await load
  if (view.opened) await run(() => document.querySelectorAll('details').forEach((details) => { details.open = true }))
  if (wide) {
    const clip = { x: 0, y: 0, width: view.width, height: view.height, scale: 1 }
    const { data } = await ask('Page.captureScreenshot', { clip, captureBeyondViewport: true })
    writeFileSync(`${pictures}.png`, Buffer.from(data, 'base64'))
    return seen
  }
  Object.assign(seen, await run(measure, width))

  const { cssContentSize } = await ask('Page.getLayoutMetrics')
  const clip = { x: 0, y: 0, width: Math.min(cssContentSize.width, 4000), height: Math.min(cssContentSize.height, 16_000), scale: 1 }
  const { data } = await ask('Page.captureScreenshot', { clip, captureBeyondViewport: true })
  writeFileSync(`${pictures}-${view.name}.png`, Buffer.from(data, 'base64'))
  if (view.media === 'print') {
    const { data } = await ask('Page.printToPDF', { printBackground: false, paperWidth: 8.27, paperHeight: 11.69 })
    writeFileSync(`${pictures}.pdf`, Buffer.from(data, 'base64'))
  }

  if (view.keys) {
    seen.stops = await run(stops)
    const met = new Map()
    // Chromium also stops at what scrolls and has no place in the order of its own: hence some more.
    for (let left = seen.stops.length + 20; left > 0 && met.size < seen.stops.length; left--) {
      await press('Tab')
      const at = await run(focused)
      if (at.stop < 0) continue
      if (at.moves) {
        await press('ArrowRight')
        for (let wait = 0; wait < 200 && !at.moved; wait++) {
          at.moved = await run(() => new Promise((then) => setTimeout(() => then(document.activeElement.scrollLeft > 0), 50)))
        }
      }
      met.set(at.stop, at)
    }
    const name = (wanted) => seen.stops.filter((_, stop) => wanted(met.get(stop)))
    seen.missed = name((at) => !at)
    seen.unmarked = name((at) => at && !at.marked)
    seen.outOfView = name((at) => at && !at.inView)
    seen.stuck = name((at) => at?.moves && !at.moved)
  }
  // The ruler is no part of the page: what it says to the console, or fetches, is not the page's.
  events['Runtime.consoleAPICalled'] = events['Log.entryAdded'] = events['Network.requestWillBeSent'] = () => {}
  if (view.scripts !== false) {
    await ask('Runtime.evaluate', { expression: ruler })
    Object.assign(seen, await run(judge))
  }
  await send('Target.closeTarget', { targetId })
  return seen
}

try {
  const seen = []
  const one = { name: 'picture', width: Number(wide), height: Number(high), scheme: 'light' }
  for (const view of wide ? [one] : VIEWS) seen.push(await look(view))
  done = true
  // Until it has ended, Chromium writes to its profile in HOME.
  const ended = new Promise((resolve) => chromium.on('exit', resolve))
  await send('Browser.close')
  await ended
  process.stdout.write(JSON.stringify(seen), () => process.exit(0))
} catch (error) {
  fail(error)
}
