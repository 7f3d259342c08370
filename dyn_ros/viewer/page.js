// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Runs before viser's client: follows the browser's color scheme, reports the window to the server,
// and says what to do if the connection is lost.
(() => {
  "use strict";

  // A link must not make this page show, and trust, another server.
  const query = new URLSearchParams(location.search);
  for (const key of ["websocket", "playbackPath"]) query.delete(key);
  history.replaceState(null, "", location.pathname + (query.size ? "?" + query : ""));

  const dark = matchMedia("(prefers-color-scheme: dark)");
  let link = null;          // the worker with the connection
  let connected = false;
  let theme = null;         // the server's latest theme
  let lost = null;          // timer, then the note

  function tell() {
    if (connected) {
      link.postMessage({type: "send", message: {
        type: "DynRosWindowMessage", width: innerWidth, height: innerHeight, dark: dark.matches}});
    }
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
