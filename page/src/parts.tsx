/** Parts of every screen. */
// All areas have this file, so what several of them share is no request of its own.
import "./bases/calls";
import "./code";
import "./collections/where";
import "./grid";
import "./pages";
import "./row_list";
import "./route";

export * from "./common_parts";
