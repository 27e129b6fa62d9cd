"""A typed client of ragstore-gateway: knowledge bases, documents, search, assistants, question sets.

    GatewayClient, AsyncGatewayClient              the calls of the gateway's contract, with structs
    KnowledgeBase, Source, Assistant, Task         configurations
    TextDocument, FileDocument, PageDocument       documents to ingest

`ragstore_client` has the errors. Chats use OpenAI's SDKs, with the gateway as their base URL.

Modules are loaded on first use.
"""

from typing import TYPE_CHECKING

from ragstore_client._lazy import lazy_names

if TYPE_CHECKING:
    from ragstore_client.gateway._async.client import AsyncGatewayClient
    from ragstore_client.gateway._async.configurations import AsyncConfigurations
    from ragstore_client.gateway._calls import BaseLike
    from ragstore_client.gateway._configurations import (
        Assistant,
        ConfigurationVersion,
        Descriptor,
        HttpCall,
        KnowledgeBase,
        KnowledgeBaseReference,
        RagDefaults,
        Rerank,
        Source,
        SourceSettings,
        Stored,
        Task,
        TaskParameters,
        UploadSource,
        VersionList,
        WebSource,
        WorkflowBase,
    )
    from ragstore_client.gateway._contents import (
        MEDIA_TYPES,
        Content,
        FileDocument,
        NewContent,
        PageDocument,
        TextDocument,
        folder_documents,
    )
    from ragstore_client.gateway._models import (
        Access,
        AccessLimits,
        DocumentEntry,
        DocumentList,
        DocumentText,
        GatewayRights,
        IngestionProgress,
        IngestionStatus,
        KeyAccess,
        KnowledgeBaseHit,
        TextHeading,
        TextPage,
    )
    from ragstore_client.gateway._questions import (
        AcceptedQuestionRun,
        CutoffFigures,
        ExpectedPassage,
        QuestionOutcome,
        QuestionRun,
        QuestionSet,
        RunFigures,
        SetQuestion,
    )
    from ragstore_client.gateway._reports import (
        DocumentFailed,
        DocumentProgress,
        DocumentsReport,
        IngestedDocument,
    )
    from ragstore_client.gateway._sources import (
        AcceptedRun,
        AuditEntry,
        SourceFile,
        SourceRun,
        StoredFeedback,
    )
    from ragstore_client.gateway._sync.client import GatewayClient
    from ragstore_client.gateway._sync.configurations import Configurations

__all__ = [
    "MEDIA_TYPES",
    "AcceptedQuestionRun",
    "AcceptedRun",
    "Access",
    "AccessLimits",
    "Assistant",
    "AsyncConfigurations",
    "AsyncGatewayClient",
    "AuditEntry",
    "BaseLike",
    "ConfigurationVersion",
    "Configurations",
    "Content",
    "CutoffFigures",
    "Descriptor",
    "DocumentEntry",
    "DocumentFailed",
    "DocumentList",
    "DocumentProgress",
    "DocumentText",
    "DocumentsReport",
    "ExpectedPassage",
    "FileDocument",
    "GatewayClient",
    "GatewayRights",
    "HttpCall",
    "IngestedDocument",
    "IngestionProgress",
    "IngestionStatus",
    "KeyAccess",
    "KnowledgeBase",
    "KnowledgeBaseHit",
    "KnowledgeBaseReference",
    "NewContent",
    "PageDocument",
    "QuestionOutcome",
    "QuestionRun",
    "QuestionSet",
    "RagDefaults",
    "Rerank",
    "RunFigures",
    "SetQuestion",
    "Source",
    "SourceFile",
    "SourceRun",
    "SourceSettings",
    "Stored",
    "StoredFeedback",
    "Task",
    "TaskParameters",
    "TextDocument",
    "TextHeading",
    "TextPage",
    "UploadSource",
    "VersionList",
    "WebSource",
    "WorkflowBase",
    "folder_documents",
]


if not TYPE_CHECKING:  # with it, a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "ragstore_client.gateway._async.client": "AsyncGatewayClient",
            "ragstore_client.gateway._async.configurations": "AsyncConfigurations",
            "ragstore_client.gateway._calls": "BaseLike",
            "ragstore_client.gateway._configurations": (
                "Assistant ConfigurationVersion Descriptor HttpCall KnowledgeBase KnowledgeBaseReference RagDefaults "
                "Rerank Source SourceSettings Stored Task TaskParameters UploadSource VersionList WebSource "
                "WorkflowBase"
            ),
            "ragstore_client.gateway._contents": (
                "MEDIA_TYPES Content FileDocument NewContent PageDocument TextDocument folder_documents"
            ),
            "ragstore_client.gateway._models": (
                "Access AccessLimits DocumentEntry DocumentList DocumentText GatewayRights IngestionProgress "
                "IngestionStatus KeyAccess KnowledgeBaseHit TextHeading TextPage"
            ),
            "ragstore_client.gateway._questions": (
                "AcceptedQuestionRun CutoffFigures ExpectedPassage QuestionOutcome QuestionRun QuestionSet "
                "RunFigures SetQuestion"
            ),
            "ragstore_client.gateway._reports": "DocumentFailed DocumentProgress DocumentsReport IngestedDocument",
            "ragstore_client.gateway._sources": "AcceptedRun AuditEntry SourceFile SourceRun StoredFeedback",
            "ragstore_client.gateway._sync.client": "GatewayClient",
            "ragstore_client.gateway._sync.configurations": "Configurations",
        },
    )
