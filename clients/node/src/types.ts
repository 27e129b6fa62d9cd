/** The contract's types by short names, and those that the generated ones cannot express. */

import type { Embedding } from "./embeddings.js";
import type { components } from "./schema.js";

export type Schemas = components["schemas"];

export type Collection = Schemas["Collection"];
export type CollectionCreated = Schemas["CollectionCreated"];
export type CollectionDeleted = Schemas["CollectionDeleted"];
export type DeleteAllResult = Schemas["DeleteAllResult"];
export type CollectionPage = Schemas["CollectionPage"];
export type CollectionMetadata = Schemas["CollectionMetadata"];
export type CollectionError = Schemas["CollectionError"];
export type Document = Schemas["Document"];
export type DocumentPage = Schemas["DocumentPage"];
export type DocumentMetadata = Schemas["DocumentMetadata"];
export type DeleteResult = Schemas["DeleteResult"];
export type WriteResult = Schemas["WriteResult"];
export type FieldError = Schemas["FieldError"];
export type Health = Schemas["Health"];
export type Match = Schemas["Match"];
export type MetadataUpdated = Schemas["MetadataUpdated"];
export type MetadataValues = Schemas["MetadataValues"];
export type MultiQueryResults = Schemas["MultiQueryResults"];
export type NewCollection = Schemas["NewCollection"];
export type Probe = Schemas["Probe"];
export type Problem = Schemas["Problem"];
export type QueryResults = Schemas["QueryResults"];
export type Scalar = Schemas["Scalar"];
export type ServiceInfo = Schemas["ServiceInfo"];
export type WhereDocument = Schemas["WhereDocument"];
export type WhereOperators = Schemas["WhereOperators"];

/**
 * A filter over metadata. Several fields, and several operators on one field, must all hold.
 *
 * The generated type is an intersection that no object with `$and` or `$or` satisfies.
 */
export interface Where {
  $and?: Where[];
  $or?: Where[];
  [field: string]: Scalar | WhereOperators | Where[] | undefined;
}

type Filtered<T extends { where?: unknown }> = Omit<T, "where"> & {
  /** Only documents whose metadata this selects. */
  where?: Where | null;
};

/** A document to store. */
export type NewDocument = Omit<Schemas["NewDocument"], "embedding"> & { embedding: Embedding };

/** Which documents to list, and how much of them. */
export type DocumentFilter = Filtered<Schemas["DocumentFilter"]>;

/** Which documents to delete: `ids`, `where`, or those of `ids` that `where` selects. */
export type DocumentSelection = { ids: readonly string[]; where?: Where } | { where: Where };

/** What a similarity query asks for besides being near. */
export type QueryOptions = Omit<Filtered<Schemas["QueryRequest"]>, "query_embedding">;
