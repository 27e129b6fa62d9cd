/** The types of the gateway's contract. Their names, such as `maxResults`, are the same in JSON and in JavaScript. */

import type { Scalar, Where } from "../types.js";
import type { components } from "./schema.js";

/** The types of the gateway's OpenAPI document. */
export type Schemas = components["schemas"];

export type Access = Schemas["Access"];
export type AcceptedQuestionRun = Schemas["AcceptedQuestionRun"];
export type AcceptedRun = Schemas["AcceptedRun"];
export type Assistant = Schemas["Assistant"];
export type AuditEntry = Schemas["AuditEntry"];
export type ConfigurationVersion = Schemas["ConfigurationVersion"];
export type DocumentEntry = Schemas["DocumentEntry"];
export type DocumentList = Schemas["DocumentList"];
export type DocumentText = Schemas["DocumentText"];
export type ExpectedPassage = Schemas["ExpectedPassage"];
export type IngestionProgress = Schemas["IngestionProgress"];
export type IngestionStatus = Schemas["IngestionStatus"];
export type KnowledgeBase = Schemas["KnowledgeBase"];
export type ProblemCode = Schemas["ProblemCode"];
export type QuestionRun = Schemas["QuestionRun"];
export type QuestionRunOutcomes = Schemas["QuestionRunOutcomes"];
export type QuestionSet = Schemas["QuestionSet"];
export type SetQuestion = Schemas["SetQuestion"];
export type Source = Schemas["Source"];
export type SourceFile = Schemas["SourceFile"];
export type SourceRun = Schemas["SourceRun"];
export type StoredFeedback = Schemas["StoredFeedback"];
export type Task = Schemas["Task"];
export type VersionList = Schemas["VersionList"];

/** The state of the last ingestion of a document. */
export type DocumentStatus = "pending" | "processing" | "completed" | "failed";

/** Metadata of the chunks of a document beside the gateway's keys. */
export type Metadata = Readonly<Record<string, Scalar>>;

/** A knowledge base, an assistant or a question set: its id, or what a call returned. */
export type ConfigurationLike = string | { readonly id: string };

/** A version of a configuration in the gateway. */
export interface Stored<Configuration> {
  id: string;
  version: number;
  /** The configuration, with all fields. */
  configuration: Required<Configuration>;
}

/** A configuration in a list. */
export type Descriptor = Schemas["Descriptor"] & {
  id: string;
  /** Its current version. */
  version: number;
};

/** A passage that a search found. */
export type KnowledgeBaseHit = Schemas["KnowledgeBaseHit"] & {
  /** Its document, with the page and the heading if they are known. */
  source: string;
};

/** The configurations to list. */
export interface PartOptions {
  /** Part of their names or descriptions, in any case. */
  part?: string | undefined;
}

/** A page of a list. */
export interface PageOptions {
  /** Number of the page, from 0. */
  index?: number | undefined;
  /** Maximum number of items on the page: 20 by default. */
  limit?: number | undefined;
}

/** How a list is iterated over. */
export interface IterOptions {
  /** Number of items in a request, 1 to 1,000: 200 by default. */
  pageSize?: number | undefined;
}

/** A version of a configuration. */
export interface VersionOptions {
  /** The version; the current one by default. */
  version?: number | undefined;
}

/** How a configuration is copied. */
export interface DuplicateOptions extends VersionOptions {
  /** Whether the documents of a knowledge base are copied, too; they are embedded again. False by default. */
  documents?: boolean | undefined;
}

/** How a configuration is deleted. */
export interface DeleteOptions {
  /** The current version, as the caller knows it; whichever is the current one by default. */
  version?: number | undefined;
  /**
   * Whether to remove all versions, and all that belongs to them, such as documents: false by default. Otherwise the
   * configuration is marked as deleted, and can be read by a version.
   */
  permanent?: boolean | undefined;
}

/** The documents to list. */
export interface DocumentOptions {
  /** Part of their names. */
  part?: string | undefined;
  /** The state of their last ingestion; any by default. */
  status?: DocumentStatus | undefined;
}

/** How a knowledge base is searched. */
export interface SearchOptions {
  /** Maximum number of passages; the base's own by default. */
  maxResults?: number | undefined;
  /** Minimum relevance, 0 to 1; the base's own by default. */
  minScore?: number | undefined;
  /** A filter by metadata. */
  where?: Where | undefined;
  /** Earlier messages of the user, the oldest one first, if the question is a follow-up. */
  earlier?: Iterable<string> | undefined;
}

/** The entries of the audit ledger to read. */
export interface AuditOptions {
  /** Id of a conversation; all by default. */
  conversation?: string | undefined;
  /** An ISO 8601 time; entries from then on. */
  since?: string | undefined;
  /** An ISO 8601 time; entries before it. */
  until?: string | undefined;
  /** The kind of the entries; all by default. */
  kind?: "retrieval" | "deletion" | "feedback" | undefined;
  /** Name of the caller's key, empty for callers without one; all by default. */
  key?: string | undefined;
  /** Name of the assistant; all by default. */
  assistant?: string | undefined;
}

/** Feedback on a reply. */
export interface FeedbackOptions {
  /** Further text, which the gateway keeps if it keeps contexts. */
  comment?: string | undefined;
}
