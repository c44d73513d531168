// Every behaviour of the pages, one a module. Each finds its elements by data attributes and listens on the document,
// so that it survives every swap and leaves nothing behind. Without any of them the pages still read, send and remove.
import "./composer.js";
import "./stream.js";
import "./drafts.js";
import "./follow.js";
import "./times.js";
import "./days.js";
import "./chats.js";
import "./copy.js";
import "./counts.js";
import "./focus.js";
import "./panel.js";
import "./agents.js";
import "./dialogs.js";
import "./seeding.js";
import "./notices.js";

// Says to whoever drives the page that keys and buttons have their script now.
document.documentElement.dataset.ready = "";
