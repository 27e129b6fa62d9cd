/** Retrieval from plain Chroma servers: importing this module registers the provider `chroma`. */

import { registry } from "../registry.js";
import { ChromaProvider } from "./provider.js";

export { type ChromaConnection, ChromaProvider } from "./provider.js";

registry.register(ChromaProvider);
