export {
  type Archive,
  DEFAULT_SETTINGS,
  type Environment,
  extractRagConfig,
  type RagArchiveConfig,
  type RagConfig,
  type RagSettings,
  settingsFromEnv,
} from "./config.js";
export type { ConnectionSchema, MemberSchema } from "./connection_schema.js";
export { type Backend, BackendDetector, type DetectOptions } from "./detection.js";
export { type Embedder, EmbeddingsClient, type EmbeddingsClientOptions, type EmbedOptions } from "./embedder.js";
export { type CachedEmbedOptions, EmbeddingCache } from "./embedding_cache.js";
export type { ExpandedPassage } from "./expansion.js";
export { formatContext, formatPassages, formatResults, TEXTS, type Texts } from "./formatting.js";
export { type Logger, NO_LOGGER } from "./logger.js";
export {
  type Capabilities,
  type CollectionMatches,
  type ProviderClass,
  type ProviderHealth,
  type ProviderInfo,
  ProviderRegistry,
  type RetrievalProvider,
  type SearchError,
  type SearchOptions,
} from "./providers.js";
export { type RagstoreConnection, RagstoreProvider } from "./ragstore_provider.js";
export { registry } from "./registry.js";
export type { RetrievedPassage, SearchResults, SkippedArchive, SkipReason } from "./results.js";
export { ALL_LAYERS, Retriever, type RetrieveOptions, type RetrieverOptions } from "./retriever.js";
export type { ApiKeys } from "./router.js";
export { chooseQuery, type QueryChoice, type Strategy } from "./strategy.js";
