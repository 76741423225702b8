import { render } from "preact";
import { App } from "./app";
import { announceChanges } from "./live/announce";
import "./styles/theme.css";
import "./styles/frame.css";
import "./styles/parts.css";
import "./styles/screens.css";
import "./theme";

const root = document.getElementById("app");
if (root !== null) {
  announceChanges();
  render(<App />, root);
}
