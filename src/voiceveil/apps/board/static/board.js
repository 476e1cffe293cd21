// Uploads an archive as it is, or a description, and says what became of it.
"use strict";
(() => {
  const show = (state, text, kind) => { state.hidden = false; state.textContent = text; state.className = `state ${kind}`; };
  // Sends a body to an address of this site; returns the answer, or null without a connection.
  const send = async (form, address, body) => {
    try {
      const answer = await fetch(`${address}?system=${encodeURIComponent(form.elements.system.value)}`, {
        method: "POST", body, credentials: "same-origin",
        headers: { "content-type": "application/octet-stream", "x-mark": form.dataset.mark },
      });
      return await answer.json();
    } catch {
      return null;
    }
  };
  const connect = (id, stateId, address, busy, good) => {
    const form = document.getElementById(id);
    if (!form) return;
    const state = document.getElementById(stateId);
    const button = form.querySelector("button");
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      button.disabled = true;
      show(state, busy, "");
      const said = await send(form, address, form.elements.archive ? form.elements.archive.files[0] : form.elements.description.value);
      if (said && said.accepted) { show(state, good(said), "good"); setTimeout(() => location.reload(), 800); return; }
      show(state, said ? `✖ Refused: ${said.reason}` : "✖ No connection: please try again.", "poor");
      button.disabled = false;
    });
  };
  connect("submit", "state", "/submit", "Uploading and scoring …", (said) => said.verification === "waiting" ? "✓ Accepted and scored; its verification runs in the background." : "✓ Accepted and scored.");
  connect("describe", "described", "/describe", "Saving …", () => "✓ Saved.");
})();
