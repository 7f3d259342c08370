// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Runs before viser's client: draws less without a graphics card, follows the browser's color scheme,
// reports the window and the pointer to the server, and says what to do if the connection is lost.
(() => {
  "use strict";

  // A link must not make this page show, and trust, another server.
  const query = new URLSearchParams(location.search);
  for (const key of ["websocket", "playbackPath"]) query.delete(key);

  // Without a graphics card, fewer pixels, no smooth edges and no shadows give four times the rate.
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
  let connection = null;    // viser's worker
  let connected = false;
  let theme = null;         // the server's latest theme
  let lostTimer = null;     // shows the notice that the connection is lost

  function send(type, values) {
    if (connected) connection.postMessage({type: "send", message: {type, ...values}});
  }
  function reportWindow() {
    send("DynRosWindow", {
      width: innerWidth, height: innerHeight, dark: dark.matches, software});
  }

  function debounce(milliseconds, action) {
    let timer = 0;
    return () => {
      clearTimeout(timer);
      timer = setTimeout(action, milliseconds);
    };
  }
  const reportWindowSoon = debounce(150, reportWindow);
  addEventListener("resize", reportWindowSoon);

  function followColorScheme() {
    document.documentElement.style.colorScheme = dark.matches ? "dark" : "light";
    if (theme) {
      connection.dispatchEvent(new MessageEvent(
        "message", {data: {type: "message_batch", messages: [{...theme}]}}));
    }
    reportWindow();
  }
  dark.addEventListener("change", followColorScheme);
  followColorScheme();

  // The ball that pulls the robot. Its label is shown here because viser's are a picture late; and the
  // robot waits for a pointer that reaches for it, because a ball that moves is hard to catch.
  const label = document.createElement("div");
  label.id = "dyn-pull";
  let ball = null, pointer = null, reaches = false;     // positions in the window [px]
  let view = null;                                      // canvas and camera of the latest picture

  function trackBall(renderer, scene, camera) {         // called after each picture
    view = {canvas: renderer.domElement, camera};
    const data = document.querySelector(".dyn-pull");
    const node = data && window.__viserMutable.nodeRefFromName[data.dataset.node];
    const position = node?.position.clone().setFromMatrixPosition(node.matrixWorld)
      .applyMatrix4(camera.matrixWorldInverse);
    const isVisible = position?.z < 0;
    label.textContent = isVisible ? data.textContent : "";
    ball = null;
    if (isVisible) {
      const canvas = renderer.domElement, frame = canvas.getBoundingClientRect();
      const project = height => {
        const {x, y} = position.clone().setY(position.y + height)
          .applyMatrix4(camera.projectionMatrix);
        return {x: (1 + x) / 2 * frame.width, y: (1 - y) / 2 * frame.height};
      };
      const {x, y} = project(0), halfWidth = label.offsetWidth / 2;
      const left = Math.min(Math.max(x - halfWidth, 0), frame.width - 2 * halfWidth);
      const top = project(1.5 * data.dataset.radius).y;
      const radius = Math.abs(project(data.dataset.radius).y - y);
      ball = {x: frame.x + x, y: frame.y + y, radius};
      label.style.transform = `translate(${left}px, ${top}px) translateY(-100%)`;
      if (label.parentNode !== canvas.parentNode) canvas.after(label);
    }
  }
  function reportReach() {
    const scene = window.__viserMutable?.scene;
    if (scene) scene.onAfterRender = trackBall;
    const maxDistance = Math.min(120, 0.2 * innerWidth);      // px
    const distance = ball && pointer
      ? Math.hypot(pointer.x - ball.x, pointer.y - ball.y) : Infinity;
    const isNear = distance < (reaches ? 1.5 * maxDistance : maxDistance);
    if (isNear !== reaches) send("DynRosReach", {reaches: reaches = isNear});
  }
  setInterval(reportReach, 50);     // also without events, because the ball moves
  for (const type of ["pointermove", "pointerdown"]) {
    addEventListener(type, event => {
      pointer = event.target.dataset?.engine ? event : null;      // at viser's canvas
    }, true);
  }
  addEventListener("pointerup", event => {
    if (event.pointerType === "touch") pointer = null;
  }, true);
  document.documentElement.addEventListener("pointerleave", () => { pointer = null; });

  // A click at the robot, without a drag, selects a link: the server finds it along the ray.
  const MAX_CLICK_MOTION = 4, MAX_CLICK_TIME = 500;     // px, ms
  let press = null;
  addEventListener("pointerdown", event => {
    press = event.target === view?.canvas && event.button === 0
      ? {x: event.clientX, y: event.clientY, time: event.timeStamp} : null;
  }, true);
  addEventListener("pointerup", event => {
    if (!press || event.target !== view?.canvas || event.timeStamp - press.time > MAX_CLICK_TIME
        || Math.hypot(event.clientX - press.x, event.clientY - press.y) > MAX_CLICK_MOTION
        || ball && Math.hypot(event.clientX - ball.x, event.clientY - ball.y) < 2 * ball.radius) {
      return;
    }
    const root = window.__viserMutable?.nodeRefFromName["/robot"];
    if (!root) return;
    const {canvas, camera} = view, frame = canvas.getBoundingClientRect();
    const start = camera.position.clone().setFromMatrixPosition(camera.matrixWorld);
    const end = camera.position.clone().set(
      2 * (event.clientX - frame.x) / frame.width - 1,
      1 - 2 * (event.clientY - frame.y) / frame.height, 0.5).unproject(camera);
    const origin = root.worldToLocal(start), direction = root.worldToLocal(end).sub(origin);
    send("DynRosClick", {origin: origin.toArray(), direction: direction.toArray()});
  }, true);

  // A recording: a click in a plot of all of it, or in its strip, goes to that time.
  addEventListener("click", event => {
    const plot = document.querySelector(".dyn-cursor") && event.target.closest?.(".u-over");
    const area = plot || event.target.closest?.(".dyn-strip");
    if (!area) return;
    const {left, width} = area.getBoundingClientRect();
    const fraction = Math.min(Math.max((event.clientX - left) / width, 0), 1);
    send("DynRosSeek", {duration_fraction: fraction});
  });

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
      clearTimeout(lostTimer);
      lostTimer = null;
      document.getElementById("dyn-lost")?.remove();
    } else if (lostTimer === null) {
      lostTimer = setTimeout(showLost, 1500);
    }
  }
  // viser itself tries again only while the window has the focus
  setInterval(() => {
    if (connection && !connected && !document.hasFocus()) connection.postMessage({type: "retry"});
  }, 2000);

  function handleMessage(worker, data) {
    if (data?.type === "connected" || data?.type === "closed") {
      connection = worker;
      reaches = false;
      setConnected(data.type === "connected");
      reportWindowSoon();
    } else if (data?.type === "message_batch") {
      for (const message of data.messages) {
        if (message.type === "ThemeConfigurationMessage") {
          message.dark_mode = dark.matches;
          theme = message;
        } else if (message.type === "GuiPanelMessage") {
          reportWindowSoon();       // the server arranges the new panels for this window
        }
      }
    }
  }
  window.Worker = class extends Worker {
    constructor(...options) {
      super(...options);
      this.addEventListener("message", event => handleMessage(this, event.data));
    }
  };
})();
