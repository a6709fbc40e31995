// The bundle's entry. In a notebook anywidget calls `render`; a page with its trace inside starts by itself; the output of a
// saved notebook calls `mount`.

import { render } from "./notebook.js";
import { startAll } from "./page.js";
import { mount } from "./saved.js";

startAll();

export default { render, mount };
