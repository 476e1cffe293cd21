// Sending to the server so that nothing is lost: one request after the other, again and again until it is answered.
"use strict";
const Sender = (() => {
  let line = Promise.resolve();
  let waiting = 0;
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  addEventListener("beforeunload", (event) => { if (waiting) event.preventDefault(); });

  async function once(url, body) {
    const stop = new AbortController();
    const clock = setTimeout(() => stop.abort(), 15000);
    try {
      const answer = await fetch(url, {
        method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" },
        credentials: "same-origin", signal: stop.signal,
      });
      return answer.status >= 500 || answer.status === 429 ? 0 : answer.status;
    } catch {
      return 0;
    } finally {
      clearTimeout(clock);
    }
  }

  async function untilAnswered(url, body, trouble) {
    for (let wait = 500; ; wait = Math.min(2 * wait, 8000)) {
      const status = await once(url, body);
      if (status) { trouble(false); return status; }
      trouble(true);
      await Promise.race([pause(wait), new Promise((done) => addEventListener("online", done, { once: true }))]);
    }
  }

  // The HTTP status of a definite answer. ``trouble(true)`` is called while there is none.
  function send(url, body, trouble) {
    waiting += 1;
    const result = line.then(() => untilAnswered(url, body, trouble)).finally(() => { waiting -= 1; });
    line = result.catch(() => {});
    return result;
  }
  return { send };
})();
