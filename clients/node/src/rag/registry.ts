/** The registry with the built-in providers. Add others with `registry.register`. */

import { ProviderRegistry } from "./providers.js";
import { RagstoreProvider } from "./ragstore_provider.js";

/** The default registry. */
export const registry = new ProviderRegistry();

registry.register(RagstoreProvider);
