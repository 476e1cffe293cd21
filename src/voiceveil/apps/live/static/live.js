// Microphone -> server -> loudspeaker.
"use strict";
(() => {
  const byId = (name) => document.getElementById(name);
  const { rate, worklet } = byId("live").dataset;
  const start = byId("start"), again = byId("again"), hear = byId("hear"), state = byId("state");
  const MOST = 64000; // bytes that may wait to be sent: a second
  let audio = null; // { context, microphone, node, volume }
  let socket = null;
  let queued = 0; // samples that wait to be played
  let waiting = []; // when each block was sent whose result is not there, and how many samples it has

  const say = (text, kind = "") => { state.textContent = text; state.className = kind; };
  const loudness = (samples) => Math.sqrt(samples.reduce((sum, x) => sum + x * x, 0) / (samples.length || 1));
  const show = (meter, samples) => { // decibels from -60 to 0 as 0 to 1
    const level = Math.max(0, 1 + Math.log10(loudness(samples) + 1e-9) / 3);
    meter.value = Math.max(level, meter.value - 0.02);
  };
  const reasons = { NotAllowedError: "The browser does not let this page listen: allow the microphone, and start again.",
    NotFoundError: "There is no microphone.", NotReadableError: "Another program has the microphone." };

  async function open() {
    const wanted = { channelCount: 1, echoCancellation: true, noiseSuppression: false, autoGainControl: false };
    if (!navigator.mediaDevices) throw new Error("This page may listen on localhost or by HTTPS only.");
    const microphone = await navigator.mediaDevices.getUserMedia({ audio: wanted });
    const context = new AudioContext({ sampleRate: Number(rate), latencyHint: "interactive" });
    await context.audioWorklet.addModule(worklet);
    const node = new AudioWorkletNode(context, "exchange", { outputChannelCount: [1] });
    const volume = new GainNode(context, { gain: hear.checked ? 1 : 0 });
    context.createMediaStreamSource(microphone).connect(node).connect(volume).connect(context.destination);
    node.port.onmessage = ({ data }) => send(data.block, data.queued);
    await context.resume();
    return { context, microphone, node, volume };
  }

  function connect() {
    waiting = [];
    socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/stream`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { say("Speak: you are heard with another voice.", "good"); again.disabled = false; };
    socket.onmessage = ({ data }) => (typeof data === "string" ? fares(JSON.parse(data)) : receive(new Float32Array(data)));
    socket.onclose = ({ code, reason }) => { if (audio && code !== 1000) stop(`The server has ended it${reason ? `: ${reason}` : "."}`); };
  }

  function send(block, left) {
    if (!audio) return; // stopped meanwhile
    queued = left;
    show(byId("in"), block);
    if (socket?.readyState !== WebSocket.OPEN || socket.bufferedAmount > MOST) return; // better a gap than a growing delay
    waiting.push([performance.now(), block.length]);
    socket.send(block);
  }

  function receive(samples) {
    let left = samples.length, sent = 0;
    while (left > 0 && waiting.length) { // whose samples these are
      const [time, length] = waiting[0];
      sent = time;
      if (length > left) { waiting[0][1] -= left; break; }
      left -= length;
      waiting.shift();
    }
    audio?.node.port.postMessage(samples);
    show(byId("out"), samples);
    if (!audio || !sent) return;
    const output = audio.context.outputLatency || audio.context.baseLatency;
    const buffered = 1000 * (queued / rate + output);
    byId("delay").textContent = `about ${Math.round(performance.now() - sent + 10 + buffered)} ms`;
  }

  function fares({ blocks, late, p50, p99, worst }) {
    byId("times").textContent = `${p50.toFixed(2)}, ${p99.toFixed(2)}, ${worst.toFixed(2)} ms`;
    byId("late").textContent = `${late} of ${blocks}`;
  }

  function stop(why) {
    const closing = socket, open = audio;
    audio = socket = null;
    if (closing?.readyState === WebSocket.OPEN) closing.close(1000);
    open?.microphone.getTracks().forEach((track) => track.stop());
    open?.context.close();
    byId("in").value = byId("out").value = 0;
    start.textContent = "Start";
    again.disabled = true;
    say(why, why === "Stopped." ? "" : "poor");
  }

  start.addEventListener("click", async () => {
    if (audio) { stop("Stopped."); return; }
    start.disabled = true;
    say("Asking for the microphone …");
    try {
      audio = await open();
      start.textContent = "Stop";
      connect();
    } catch (error) {
      stop(reasons[error.name] ?? `Cannot start: ${error.message}`);
    }
    start.disabled = false;
  });
  again.addEventListener("click", () => { const old = socket; socket = null; old.onclose = null; old.onmessage = null; old.close(1000); connect(); });
  hear.addEventListener("change", () => { if (audio) audio.volume.gain.value = hear.checked ? 1 : 0; });
})();
