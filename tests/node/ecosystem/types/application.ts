// An application in the style of NestJS: decorators, and metadata that refers to the client's class at run time.
import { Client, type CollectionHandle, NotFound, type NewDocument, type Outcome } from "@ragstore/client";
import { createSearchTool } from "@ragstore/client/ai";
import { GatewayClient } from "@ragstore/client/gateway";
import { RagstoreVectorStore } from "@ragstore/client/langchain";
import { chooseQuery, registry, Retriever } from "@ragstore/client/rag";
import { ChromaProvider } from "@ragstore/client/rag/chroma";

function Injectable(): ClassDecorator {
  return () => undefined;
}

@Injectable()
export class ArchiveService {
  private readonly collection: CollectionHandle;

  constructor(client: Client) {
    this.collection = client.collection("archive");
  }

  async store(documents: AsyncIterable<NewDocument>): Promise<string[]> {
    const errors: string[] = [];
    for await (const outcome of this.collection.ingest(documents)) {
      if (!outcome.stored) {
        errors.push(outcome.error.message);
      }
    }
    return errors;
  }

  async nearest(embedding: number[]): Promise<string | undefined> {
    const { results } = await this.collection.query(embedding, { topK: 1 });
    const [first] = results;
    return first && first.distance < 0.5 ? first.text : undefined;
  }
}

const show = ({ id, stored, error }: Outcome): string => (stored ? `${id} stored` : error.message);

const names = registry.discover().map(({ name }) => name);
const retriever = new Retriever({ archives: [] });
const tool = createSearchTool(new GatewayClient("http://127.0.0.1:8090"), { id: "a", name: "house" } as { id: string });
const service = new ArchiveService(new Client("http://127.0.0.1:8080"));
console.log(
  names.join(),
  ChromaProvider.id,
  chooseQuery("Does it?", "the boiler").text,
  retriever.archives.length,
  show({ index: 0, id: "a", stored: true }),
  typeof service.nearest,
  NotFound.name,
  RagstoreVectorStore.name,
  tool.description.slice(0, 34),
);
