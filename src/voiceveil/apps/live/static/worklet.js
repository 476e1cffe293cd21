// In the audio thread: hands over blocks of 10 ms of the microphone, and plays what comes back.
"use strict";
const BLOCK = 160; // samples
const FIRST = 640; // gathered before the first is played: 40 ms, for a network that is not steady
const MOST = 4800; // what is older than 300 ms is dropped: better a gap than a growing delay
registerProcessor("exchange", class extends AudioWorkletProcessor {
  constructor() {
    super();
    this.block = new Float32Array(BLOCK);
    this.filled = 0;
    this.queue = [];
    this.queued = 0;
    this.playing = false;
    this.port.onmessage = ({ data }) => { this.queue.push(data); this.queued += data.length; };
  }

  process([[heard]], [[out]]) {
    for (const sample of heard ?? []) {
      this.block[this.filled++] = sample;
      if (this.filled === BLOCK) {
        this.port.postMessage({ block: this.block.slice(), queued: this.queued });
        this.filled = 0;
      }
    }
    while (this.queued > MOST) this.queued -= this.queue.shift().length;
    this.playing = this.playing ? this.queued > 0 : this.queued >= FIRST;
    for (let i = 0; this.playing && i < out.length && this.queued; i++, this.queued--) {
      out[i] = this.queue[0][0];
      this.queue[0] = this.queue[0].subarray(1);
      if (!this.queue[0].length) this.queue.shift();
    }
    return true;
  }
});
