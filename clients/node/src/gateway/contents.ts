/** Documents to ingest: texts, files, bytes, pages of the web. */

import { checkMetadata, checkString } from "../encoding.js";
import { InvalidInput } from "../errors.js";
import { fileSystem } from "../runtime.js";
import type { Metadata } from "./types.js";

export const MARKDOWN = "text/markdown";

/** The media type of a document whose format the gateway recognises by its content. */
const UNKNOWN = "application/octet-stream";

const OFFICE = "application/vnd.openxmlformats-officedocument";

/** Media types of documents by the extensions of their files. */
export const MEDIA_TYPES: Readonly<Record<string, string>> = {
  ".txt": "text/plain",
  ".text": "text/plain",
  ".rst": "text/plain",
  ".md": MARKDOWN,
  ".markdown": MARKDOWN,
  ".mdown": MARKDOWN,
  ".mkd": MARKDOWN,
  ".html": "text/html",
  ".htm": "text/html",
  ".xhtml": "text/html",
  ".csv": "text/csv",
  ".tsv": "text/csv",
  ".pdf": "application/pdf",
  ".docx": `${OFFICE}.wordprocessingml.document`,
  ".xlsx": `${OFFICE}.spreadsheetml.sheet`,
  ".pptx": `${OFFICE}.presentationml.presentation`,
};

/** The options of a document. */
export interface ContentOptions {
  /** Name in the knowledge base. It replaces the document of this name. */
  name?: string | undefined;
  /** Media type; by default it follows from the extension of the name. */
  mediaType?: string | undefined;
  /** Metadata of its chunks beside the gateway's keys. */
  metadata?: Metadata | undefined;
}

/** A text to ingest. */
export interface TextDocument extends ContentOptions {
  name: string;
  text: string;
  /** Media type: `text/plain` by default; `text/markdown` for a text whose headings are marked. */
  mediaType?: string | undefined;
}

/** A file to ingest, in Node, Bun and Deno. Its name is the name of the file by default. */
export interface FileDocument extends ContentOptions {
  path: string;
}

/** Bytes to ingest, such as a `File` of a form. The name of a `File` is the name of the document by default. */
export interface BlobDocument extends ContentOptions {
  content: Blob | Uint8Array;
}

/** A page of the web to ingest. The gateway reads it. Its name is the URL by default. */
export interface PageDocument extends Omit<ContentOptions, "mediaType"> {
  url: string;
}

/** A document to ingest. */
export type NewContent = TextDocument | FileDocument | BlobDocument | PageDocument;

/** A document whose content can be sent. */
export interface OpenDocument {
  name: string;
  mediaType: string;
  metadata: Metadata | undefined;
  /** Its content; undefined for a page, which the gateway has yet to read. */
  content: Blob | undefined;
  /** The URL of a page. */
  url: string;
}

/** The name of a document, if it has one. */
export function nameOf(document: NewContent): string {
  const { name, path, url, content } = (document as Partial<FileDocument & BlobDocument & PageDocument> | null) ?? {};
  return [name, path?.replace(/^.*[/\\]/s, ""), url, (content as Partial<File> | undefined)?.name].find((each) => each) ?? "";
}

/**
 * Open a document.
 *
 * @throws InvalidInput if it is no document.
 * @throws Error of the file system if its file cannot be read.
 */
export async function openDocument(document: NewContent): Promise<OpenDocument> {
  const name = nameOf(document);
  if (typeof document !== "object" || typeof name !== "string" || name === "") {
    throw new InvalidInput("a document must be an object with `text`, `path`, `content` or `url`, and a name");
  }
  const { metadata } = document;
  checkMetadata(metadata, "$.metadata");
  if ("url" in document) {
    return { name, mediaType: MARKDOWN, metadata, content: undefined, url: document.url };
  }
  if ("text" in document) {
    checkString(document.text, "$.text");
    const content = new Blob([document.text]);
    return { name, mediaType: document.mediaType ?? "text/plain", metadata, content, url: "" };
  }
  const content = "path" in document ? await openFile(document.path) : asBlob(document.content);
  const mediaType = document.mediaType ?? (MEDIA_TYPES[extensionOf(name)] || content.type || UNKNOWN);
  return { name, mediaType, metadata, content, url: "" };
}

/**
 * The documents of a folder, in the order of their paths, in Node, Bun and Deno.
 *
 * @param folder its files with an extension of `MEDIA_TYPES` are documents. The name of a document is its path in the
 *   folder, such as `guides/install.md`.
 * @param recursive whether to descend into the folders of the folder.
 * @throws Error of the file system if a folder cannot be read.
 */
export async function* folderDocuments(
  folder: string,
  { recursive = true }: { recursive?: boolean | undefined } = {},
): AsyncGenerator<FileDocument & { name: string }, void, undefined> {
  const { promises } = files();
  const entries = await promises.readdir(folder, { withFileTypes: true });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) {
      if (recursive) {
        for await (const document of folderDocuments(path)) {
          yield { ...document, name: `${entry.name}/${document.name}` };
        }
      }
    } else if (extensionOf(entry.name) in MEDIA_TYPES && (entry.isFile() || (await promises.stat(path)).isFile())) {
      yield { path, name: entry.name };
    }
  }
}

function files(): NonNullable<ReturnType<typeof fileSystem>> {
  const found = fileSystem();
  if (!found) {
    throw new InvalidInput("files are read in Node 20.16 or newer, Bun and Deno: elsewhere, pass their content");
  }
  return found;
}

/** A file as a blob, which is read as it is sent. A named pipe is read completely: a document may be sent more than once. */
async function openFile(path: string): Promise<Blob> {
  const { openAsBlob, promises } = files();
  const isFile = (await promises.stat(path)).isFile();
  return isFile && openAsBlob ? await openAsBlob(path) : new Blob([await promises.readFile(path)]);
}

function asBlob(content: unknown): Blob {
  if (content instanceof Blob) {
    return content;
  }
  if (content instanceof Uint8Array) {
    return new Blob([content as Uint8Array<ArrayBuffer>]);
  }
  throw new InvalidInput("the content of a document must be a Blob or a Uint8Array");
}

function extensionOf(name: string): string {
  return /\.[^./\\]+$/.exec(name)?.[0].toLowerCase() ?? "";
}
