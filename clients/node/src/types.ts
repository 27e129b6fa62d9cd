/** The types of the contract, and those that the generated schema cannot express. This module imports only the schema. */

import type { components } from "./schema.js";

export type Schemas = components["schemas"];

export type Collection = Schemas["Collection"];
export type CollectionCreated = Schemas["CollectionCreated"];
export type CollectionDeleted = Schemas["CollectionDeleted"];
export type CollectionError = Schemas["CollectionError"];
export type CollectionMetadata = Schemas["CollectionMetadata"];
export type CollectionPage = Schemas["CollectionPage"];
export type DeleteAllResult = Schemas["DeleteAllResult"];
export type DeleteResult = Schemas["DeleteResult"];
export type Document = Schemas["Document"];
export type DocumentMetadata = Schemas["DocumentMetadata"];
export type DocumentPage = Schemas["DocumentPage"];
export type FieldError = Schemas["FieldError"];
export type Health = Schemas["Health"];
export type HealthDetails = Schemas["HealthDetails"];
export type HnswParameters = Schemas["HnswParameters"];
export type Match = Schemas["Match"];
export type MetadataUpdated = Schemas["MetadataUpdated"];
export type MetadataValues = Schemas["MetadataValues"];
export type MultiQueryResults = Schemas["MultiQueryResults"];
export type NewCollection = Schemas["NewCollection"];
export type Probe = Schemas["Probe"];
export type Problem = Schemas["Problem"];
export type ProblemCode = Schemas["ProblemCode"];
export type QueryResults = Schemas["QueryResults"];
export type Scalar = Schemas["Scalar"];
export type ServiceInfo = Schemas["ServiceInfo"];
export type WhereDocument = Schemas["WhereDocument"];
export type WhereOperators = Schemas["WhereOperators"];
export type WriteResult = Schemas["WriteResult"];

/** An embedding: numbers, or base64 of their little-endian float32 bytes. */
export type Embedding = Float32Array | Float64Array | readonly number[] | string;

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

type WithWhere<T extends { where?: unknown }> = Omit<T, "where"> & {
  /** Filter over metadata. */
  where?: Where | null;
};

/** A document to store. */
export type NewDocument = Omit<Schemas["NewDocument"], "embedding"> & { embedding: Embedding };

/** The documents to list. An absent field does not restrict them. */
export type DocumentFilter = WithWhere<Schemas["DocumentFilter"]>;

/** The documents to delete: those with these ids that the filter selects. One of the two is required. */
export type DeleteRequest = { ids: readonly string[]; where?: Where } | { where: Where };

/** The optional fields of a similarity query. */
export type QueryOptions = Omit<WithWhere<Schemas["QueryRequest"]>, "query_embedding">;
