// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Runs before viser's client: draws less without a graphics card, follows the browser's color scheme,
// reports the window and the pointer to the server, and says what to do if the connection is lost.
(() => {
  "use strict";

  // A link must not make this page show, and trust, another server.
  const query = new URLSearchParams(location.search);
  for (const key of ["websocket", "playbackPath"]) query.delete(key);

  // Without a graphics card, fewer pixels, no smooth edges and no shadows: four times the pictures.
  const getContext = HTMLCanvasElement.prototype.getContext;
  function drawsInSoftware() {
    const gl = getContext.call(document.createElement("canvas"), "webgl2");
    const names = gl?.getExtension("WEBGL_debug_renderer_info");
    const name = names ? gl.getParameter(names.UNMASKED_RENDERER_WEBGL) : "";
    gl?.getExtension("WEBGL_lose_context")?.loseContext();
    return /swiftshader|llvmpipe|softpipe|software/i.test(name);
  }
  const software = drawsInSoftware();
  if (software) {
    document.documentElement.dataset.software = "";
    if (!query.has("fixedDpr")) query.set("fixedDpr", 0.75 * devicePixelRatio);
    HTMLCanvasElement.prototype.getContext = function (kind, options) {
      return getContext.call(this, kind, kind.startsWith("webgl")
        ? {...options, antialias: false, preserveDrawingBuffer: false} : options);
    };
  }
  history.replaceState(null, "", location.pathname + (query.size ? "?" + query : ""));

  const dark = matchMedia("(prefers-color-scheme: dark)");
  let link = null;          // the worker with the connection
  let connected = false;
  let theme = null;         // the server's latest theme
  let lost = null;          // timer, then the note

  function send(type, values) {
    if (connected) link.postMessage({type: "send", message: {type, ...values}});
  }
  function tell() {
    send("DynRosWindow", {
      width: innerWidth, height: innerHeight, dark: dark.matches, software});
  }

  function later(milliseconds, action) {
    let timer = 0;
    return () => {
      clearTimeout(timer);
      timer = setTimeout(action, milliseconds);
    };
  }
  const tellSoon = later(150, tell);
  addEventListener("resize", tellSoon);

  function follow() {
    document.documentElement.style.colorScheme = dark.matches ? "dark" : "light";
    if (theme) {
      link.dispatchEvent(new MessageEvent(
        "message", {data: {type: "message_batch", messages: [{...theme}]}}));
    }
    tell();
  }
  dark.addEventListener("change", follow);
  follow();

  // The ball that pulls the robot. Its label is shown here because viser's are a picture late; and the
  // robot waits for a pointer that reaches for it, because a ball that moves is hard to catch.
  const label = document.createElement("div");
  label.id = "dyn-pull";
  let ball = null, pointer = null, reaches = false;     // places in the window [px]

  function followBall(renderer, scene, camera) {        // when a picture has been drawn
    const data = document.querySelector(".dyn-pull");
    const node = data && window.__viserMutable.nodeRefFromName[data.dataset.node];
    const place = node?.position.clone().setFromMatrixPosition(node.matrixWorld)
      .applyMatrix4(camera.matrixWorldInverse);
    const seen = place?.z < 0;
    label.textContent = seen ? data.textContent : "";
    ball = null;
    if (seen) {
      const canvas = renderer.domElement, frame = canvas.getBoundingClientRect();
      const pixels = height => {
        const {x, y} = place.clone().setY(place.y + height).applyMatrix4(camera.projectionMatrix);
        return {x: (1 + x) / 2 * frame.width, y: (1 - y) / 2 * frame.height};
      };
      const {x, y} = pixels(0), half = label.offsetWidth / 2;
      const left = Math.min(Math.max(x - half, 0), frame.width - 2 * half);
      const top = pixels(1.5 * data.dataset.radius).y;
      ball = {x: frame.x + x, y: frame.y + y};
      label.style.transform = `translate(${left}px, ${top}px) translateY(-100%)`;
      if (label.parentNode !== canvas.parentNode) canvas.after(label);
    }
  }
  function reach() {
    const scene = window.__viserMutable?.scene;
    if (scene) scene.onAfterRender = followBall;
    const near = Math.min(120, 0.2 * innerWidth);
    const away = ball && pointer ? Math.hypot(pointer.x - ball.x, pointer.y - ball.y) : Infinity;
    const now = away < (reaches ? 1.5 * near : near);
    if (now !== reaches) send("DynRosReach", {reaches: reaches = now});
  }
  setInterval(reach, 50);     // the ball moves too
  for (const type of ["pointermove", "pointerdown"]) {
    addEventListener(type, event => {
      pointer = event.target.dataset?.engine ? event : null;      // at viser's canvas
    }, true);
  }
  addEventListener("pointerup", event => {
    if (event.pointerType === "touch") pointer = null;
  }, true);
  document.documentElement.addEventListener("pointerleave", () => { pointer = null; });

  function showLost() {
    const note = document.createElement("div");
    note.id = "dyn-lost";
    note.setAttribute("role", "alert");
    note.innerHTML = "<b>Connection lost</b><span>This picture is not live. Check that dyn_ros is "
      + "still running on the robot's computer, or start it again. The page reconnects by itself.";
    document.body.append(note);
  }
  function setConnected(value) {
    connected = value;
    if (connected) {
      clearTimeout(lost);
      lost = null;
      document.getElementById("dyn-lost")?.remove();
    } else if (lost === null) {
      lost = setTimeout(showLost, 1500);
    }
  }
  // viser itself tries again only while the window has the focus
  setInterval(() => {
    if (link && !connected && !document.hasFocus()) link.postMessage({type: "retry"});
  }, 2000);

  function hear(worker, data) {
    if (data?.type === "connected" || data?.type === "closed") {
      link = worker;
      reaches = false;
      setConnected(data.type === "connected");
      tellSoon();
    } else if (data?.type === "message_batch") {
      for (const message of data.messages) {
        if (message.type === "ThemeConfigurationMessage") {
          message.dark_mode = dark.matches;
          theme = message;
        } else if (message.type === "GuiPanelMessage") {
          tellSoon();       // so that the server can arrange the new panels for this window
        }
      }
    }
  }
  window.Worker = class extends Worker {
    constructor(...options) {
      super(...options);
      this.addEventListener("message", event => hear(this, event.data));
    }
  };
})();
