"""`Assistant`: a model, the knowledge bases that it may search, and how each of its tasks searches them."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from ragstore.kit.misfits import described
from ragstore_gateway.configurations.knowledge_base import MaxResults, MinScore, Name, WhereTemplate

USER_INPUT: Final = "{userInput}"
"""The variable of templates: the question."""

MAX_WORKFLOW: Final = 100
MAX_TASKS: Final = 100
MAX_HTTP_CALLS: Final = 100

SHORT_NAME: Final = described(r"^[A-Za-z0-9_-]+$(?!\n)", "Names must consist of letters, digits, _ and -")
HEADER_NAME: Final = described(
    r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$(?!\n)", "Names of headers must consist of letters, digits and !#$%&'*+.^_`|~-"
)
TEMPLATE_URL: Final = described(
    r"^https?://[^\s/?#@{}$]+([/?][^\s#]*)?$(?!\n)",
    "Must be an http:// or https:// address, without a user, and without variables in the host",
)
BASE_URL: Final = described(
    r"^(https?://[^\s/@?#]+(/[^\s?#]*)?)?$(?!\n)", "Must be an http:// or https:// address, without a user and a query"
)
POINTER: Final = described(r"^(/([^~]|~[01])*)?$(?!\n)", "Must be a JSON pointer, such as /results/0/text")

HttpMethod: TypeAlias = Literal["GET", "POST", "PUT", "PATCH"]
PromptStyle: TypeAlias = Literal["context", "sources"]
RerankProvider: TypeAlias = Literal["tei", "cohere", "local"]
ShortName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=128, pattern=SHORT_NAME, description="Letters, digits, `_` and `-`.")
]
Template: TypeAlias = Annotated[str, Meta(max_length=10_000)]
Diversity: TypeAlias = Annotated[
    float, Meta(ge=0, le=1, description="Weight of diversity in maximal marginal relevance; absent for none.")
]
Version: TypeAlias = Annotated[int, Meta(ge=0, description="Version; 0 means the current one.")]


class _Configuration(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    pass


class WorkflowBase(_Configuration, frozen=True, kw_only=True):
    """A knowledge base of a workflow."""

    name: Name
    version: Version = 0


class HttpCall(_Configuration, frozen=True, kw_only=True):
    """A request whose response is added to the prompt. `{userInput}` in a template is the question.

    It is escaped for where it occurs: the URL and its query, a JSON body, or a form. Secrets are references, such as
    `${env:NAME}`, in the URL's query, the headers and the body.
    """

    url: Annotated[
        str,
        Meta(
            max_length=4096,
            pattern=TEMPLATE_URL,
            description="Address, a template after the host. The gateway's administrator allows hosts.",
        ),
    ]
    method: Annotated[HttpMethod, Meta(description="Method.")] = "GET"
    headers: Annotated[
        dict[Annotated[str, Meta(pattern=HEADER_NAME, max_length=128)], Template],
        Meta(max_length=50, description="Headers."),
    ] = {}
    query: Annotated[dict[str, Template], Meta(max_length=50, description="Templates of the parameters.")] = {}
    body: Annotated[
        str, Meta(max_length=100_000, description="Template of the body; JSON unless a header says otherwise.")
    ] = ""
    timeout_seconds: Annotated[float, Meta(gt=0, le=60, description="Time limit in seconds.")] = 5.0
    max_bytes: Annotated[int, Meta(ge=1, le=10_485_760, description="Largest response, in bytes.")] = 262_144
    pointer: Annotated[
        str,
        Meta(
            max_length=1024,
            pattern=POINTER,
            description="JSON pointer (RFC 6901) to the part of the response that is used; empty means all of it.",
        ),
    ] = ""


class KnowledgeBaseReference(_Configuration, frozen=True, kw_only=True):
    """A reference of a task to a knowledge base of its workflow. An absent parameter has the value of the base."""

    name: Name
    max_results: MaxResults | None = None
    min_score: MinScore | None = None


class RagDefaults(_Configuration, frozen=True, kw_only=True):
    """Values for the bases that `enableWorkflowRag` finds, before each base's own."""

    max_results: MaxResults | None = None
    min_score: MinScore | None = None


class Rerank(_Configuration, frozen=True, kw_only=True):
    """A server, or a model in the gateway's process, that orders the passages of all bases."""

    provider: Annotated[RerankProvider, Meta(description="`tei`, `cohere` for servers of Cohere's API, or `local`.")]
    base_url: Annotated[
        str, Meta(max_length=2048, pattern=BASE_URL, description="Address of the server; `local` has none.")
    ] = ""
    model: Annotated[
        str, Meta(max_length=256, description="Model; `cohere` needs it. That of `local` is `onnx:FOLDER`.")
    ] = ""
    api_key: Annotated[str, Meta(max_length=1024, description="Reference to the key, such as `${env:NAME}`.")] = ""


class TaskParameters(_Configuration, frozen=True, kw_only=True):
    """EDDI's `parameters` of a task."""

    system_message: Annotated[
        str, Meta(max_length=100_000, description="Begins the system message, if the assistant's own is empty.")
    ] = ""


class Task(_Configuration, frozen=True, kw_only=True):
    """How an assistant retrieves. `actions`, `type` and `parameters` are EDDI's."""

    id: Annotated[
        str,
        Meta(
            max_length=128,
            pattern=described(r"^[A-Za-z0-9_-]*$(?!\n)", "Names must consist of letters, digits, _ and -"),
            description="Letters, digits, `_` and `-`; empty for `task-1` and so on, by its index.",
        ),
    ] = ""
    actions: Annotated[
        list[Annotated[str, Meta(max_length=128)]],
        Meta(max_length=100, description="Ignored: each chat runs all tasks."),
    ] = []
    type: Annotated[str, Meta(max_length=128, description="Ignored: the assistant names the model.")] = ""
    parameters: TaskParameters = TaskParameters()
    knowledge_bases: Annotated[
        list[KnowledgeBaseReference],
        Meta(max_length=MAX_WORKFLOW, description="The bases of the workflow to search, with parameters."),
    ] = []
    enable_workflow_rag: Annotated[
        bool, Meta(description="Whether all bases of the workflow are searched if `knowledgeBases` is empty.")
    ] = False
    rag_defaults: RagDefaults | None = None
    where: WhereTemplate = {}
    http_call_rag: Annotated[
        str, Meta(max_length=128, description="Name of the httpCall whose response comes first; empty for none.")
    ] = ""
    max_rag_context_chars: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Maximum number of characters of the context.")
    ] = 20_000
    max_rag_context_tokens: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=1_000_000,
                description="Maximum number of tokens of the context; absent means RAGSTORE_GATEWAY_RAG_TOKEN_BUDGET.",
            ),
        ]
        | None
    ) = None
    rerank: Rerank | None = None
    diversity: Diversity | None = None


class Assistant(_Configuration, frozen=True, kw_only=True):
    """A version of an assistant: the model `rag/NAME` of OpenAI's API."""

    name: Name
    description: Annotated[str, Meta(max_length=1024, description="Its subject, for people.")] = ""
    model: Annotated[
        str, Meta(max_length=256, description="The upstream's model; empty means RAGSTORE_GATEWAY_MODEL.")
    ] = ""
    system_message: Annotated[str, Meta(max_length=100_000, description="Begins the system message.")] = ""
    workflow: Annotated[
        list[Name | WorkflowBase],
        Meta(max_length=MAX_WORKFLOW, description="The bases that its tasks may search, by name."),
    ] = []
    prompt_style: Annotated[
        PromptStyle,
        Meta(
            description="Where passages are in the prompt: under headings in the system message (`context`), or as "
            "numbered sources in the last message of the user (`sources`)."
        ),
    ] = "context"
    cite_instruction: (
        Annotated[
            str,
            Meta(
                max_length=10_000,
                description="The sentences that say how to cite; absent means the gateway's own, empty means none.",
            ),
        ]
        | None
    ) = None
    empty_context: Annotated[
        Literal["tell", "silent"],
        Meta(description="Whether the system message says so if nothing was found (`tell`)."),
    ] = "tell"
    list_sources: (
        Annotated[
            bool,
            Meta(
                description="Whether replies end with a list of the sources that they cite; absent means "
                "RAGSTORE_GATEWAY_RAG_LIST_SOURCES."
            ),
        ]
        | None
    ) = None
    query: Annotated[
        Literal["", "conversation", "last", "rewrite"],
        Meta(
            description="The texts that are searched for: the messages of the user, the last one, or a question that "
            "the model makes of them; empty means RAGSTORE_GATEWAY_RAG_QUERY."
        ),
    ] = ""
    http_calls: Annotated[
        dict[ShortName, HttpCall], Meta(max_length=MAX_HTTP_CALLS, description="Its httpCalls by name.")
    ] = {}
    tasks: Annotated[list[Task], Meta(min_length=1, max_length=MAX_TASKS, description="Its tasks, in order.")]

    def __post_init__(self) -> None:
        """Name the tasks that have no id."""
        if not all(task.id for task in self.tasks):
            named = [structs.replace(task, id=task.id or f"task-{n}") for n, task in enumerate(self.tasks, 1)]
            structs.force_setattr(self, "tasks", named)

    @property
    def own_system_message(self) -> str:
        """The beginning of the system message: the assistant's own text, or else the texts of its tasks."""
        given = (task.parameters.system_message for task in self.tasks)
        return self.system_message or "\n\n".join(dict.fromkeys(filter(None, given)))

    @property
    def bases(self) -> list[WorkflowBase]:
        """The bases of the workflow, each with its version."""
        return [each if isinstance(each, WorkflowBase) else WorkflowBase(name=each) for each in self.workflow]
