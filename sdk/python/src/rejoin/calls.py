"""The requests of the API: paths, bodies, and how responses are read. The clients send them; nothing here does I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote
from uuid import UUID

from pydantic import BaseModel, TypeAdapter, ValidationError

from .errors import ResponseError
from .model import Model
from .records import (
    Accepted,
    Caller,
    Cancelled,
    CatalogueModel,
    Conversation,
    File,
    FileRef,
    ListedAgent,
    Message,
    Page,
    Question,
    Resumed,
    Run,
    Steered,
)

T = TypeVar("T")

Id: TypeAlias = str | UUID
Query: TypeAlias = Mapping[str, "str | int | bool | None"]
OnBusy: TypeAlias = Literal["answer", "enqueue", "reject", "interrupt"]
After: TypeAlias = int | Literal["now"] | None
Attachment: TypeAlias = File | FileRef | Id


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, and how its response becomes a value."""

    method: str
    path: str
    read: Callable[[bytes], T]
    query: Query = field(default_factory=dict[str, "str | int | bool | None"])
    json: Any = None
    content: bytes | None = None
    """The body, in the place of `json`."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_transfer: bool = False
    """Whether a file is transferred, which may take longer."""
    silence_s: float | None = None
    """Longest silence while the response is awaited, in seconds. None: as the client's limits have it."""

    def params(self) -> dict[str, str]:
        """Returns the query, without absent values."""
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in self.query.items() if value is not None
        }


def path(*parts: Id) -> str:
    """Returns a path of the API."""
    return "/api/" + "/".join(quote(str(part), safe="") for part in parts)


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """Returns a function that reads JSON of this type. It raises `ResponseError`."""
    adapter = TypeAdapter(kind)

    def read(body: bytes) -> T:
        try:
            return adapter.validate_json(body)
        except ValidationError as error:
            name = getattr(kind, "__name__", str(kind))
            raise ResponseError(f"the response is not a {name} as this version knows it; is the URL that of a Rejoin API?") from error

    return read


def nothing(_: bytes) -> None:
    """Reads a response without content."""


def anything(body: bytes) -> Any:
    """Reads any JSON; None if there is none."""
    return reader(object)(body) if body else None


def send(
    message: str,
    *,
    client_turn_id: str,
    conversation_id: Id | None,
    agent_id: Id | None,
    on_busy: OnBusy | None,
    output_schema: Mapping[str, Any] | type[BaseModel] | None,
    attachments: Iterable[Attachment],
    extra: Mapping[str, Any] | None,
) -> Call[Accepted]:
    """Posts a message."""
    schema = output_schema.model_json_schema() if isinstance(output_schema, type) else output_schema
    files = [{"fileId": str(_file_id(file))} for file in attachments]
    body: dict[str, Any] = {
        "message": message,
        "clientTurnId": client_turn_id,
        "conversationId": None if conversation_id is None else str(conversation_id),
        "agentDefinitionId": None if agent_id is None else str(agent_id),
        "outputSchema": schema,
        "attachments": files or None,
        **(extra or {}),
    }
    given = {name: value for name, value in body.items() if value is not None}
    return Call("POST", path("chat", "stream"), reader(Accepted), {"onBusy": on_busy}, given, headers={"accept": "application/json"})


def _file_id(file: Attachment) -> Id:
    if isinstance(file, File):
        return file.id
    return file.file_id if isinstance(file, FileRef) else file


def cancel(run_id: Id) -> Call[Cancelled]:
    """Cancels a run."""
    return Call("POST", path("runs", run_id, "cancel"), reader(Cancelled))


def steer(run_id: Id, message: str) -> Call[Steered]:
    """Sends a message to an active run."""
    return Call("POST", path("runs", run_id, "messages"), reader(Steered), json={"message": message})


class _SignalState(Model):
    delivered: bool


def signal(run_id: Id, name: str, data: Any) -> Call[bool]:
    """Sends a signal to a run."""
    read = reader(_SignalState)
    return Call("POST", path("runs", run_id, "signals"), lambda body: read(body).delivered, json={"name": name, "data": data})


def resume(run_id: Id, message: str | None) -> Call[Resumed]:
    """Resumes a paused run."""
    return Call("POST", path("runs", run_id, "resume"), reader(Resumed), json={} if message is None else {"message": message})


def run(run_id: Id) -> Call[Run]:
    """Gets a run."""
    return Call("GET", path("runs", run_id), reader(Run))


def answer(question_id: Id, answer: Any, replacement: Any) -> Call[Question]:
    """Answers a question."""
    body = {"answer": answer} if replacement is None else {"answer": answer, "input": replacement}
    return Call("POST", path("questions", question_id, "answer"), reader(Question), json=body)


def question(question_id: Id) -> Call[Question]:
    """Gets a question."""
    return Call("GET", path("questions", question_id), reader(Question))


def questions(status: str | None, limit: int | None) -> Call[Page[Question]]:
    """Lists questions."""
    return Call("GET", path("questions"), reader(Page[Question]), {"status": status, "limit": limit})


def conversation(conversation_id: Id) -> Call[Conversation]:
    """Gets a conversation."""
    return Call("GET", path("conversations", conversation_id), reader(Conversation))


def conversations(text: str | None, limit: int | None) -> Call[Page[Conversation]]:
    """Lists conversations."""
    return Call("GET", path("conversations"), reader(Page[Conversation]), {"q": text, "limit": limit})


def messages(conversation_id: Id, limit: int | None) -> Call[Page[Message]]:
    """Lists the messages of a conversation."""
    return Call("GET", path("conversations", conversation_id, "messages"), reader(Page[Message]), {"limit": limit})


def upload(name: str | None, media_type: str | None, size_bytes: int) -> Call[File]:
    """Uploads a file. Its content is sent as the body."""
    headers = {"content-type": media_type or "application/octet-stream", "content-length": str(size_bytes)}
    return Call("POST", path("files"), reader(File), {"name": name}, headers=headers, is_transfer=True)


def download(file_id: Id) -> Call[bytes]:
    """Downloads a file."""
    return Call("GET", path("files", file_id, "content"), bytes, headers={"accept": "*/*"}, is_transfer=True)


def file(file_id: Id) -> Call[File]:
    """Gets a file's description."""
    return Call("GET", path("files", file_id), reader(File))


def files(limit: int | None) -> Call[Page[File]]:
    """Lists files."""
    return Call("GET", path("files"), reader(Page[File]), {"limit": limit})


def delete_file(file_id: Id) -> Call[None]:
    """Deletes a file."""
    return Call("DELETE", path("files", file_id), nothing)


class _Catalogue(BaseModel):
    items: list[CatalogueModel]


def models(text: str | None, provider: str | None, can: Iterable[str], retired: bool) -> Call[list[CatalogueModel]]:
    """Lists the models of the catalogue."""
    query: Query = {"q": text, "provider": provider, "can": ",".join(can) or None, "retired": retired or None}
    read = reader(_Catalogue)
    return Call("GET", path("models"), lambda body: read(body).items, query)


def caller() -> Call[Caller]:
    """Gets the key's user and project."""
    return Call("GET", path("me"), reader(Caller))


def agents(project_id: Id) -> Call[Page[ListedAgent]]:
    """Lists the agents that can be chosen."""
    return Call("GET", path("projects", project_id, "agents"), reader(Page[ListedAgent]))


def any_request(method: str, path: str, json: Any, query: Query | None) -> Call[Any]:
    """Any other request."""
    return Call(method, path, anything, query or {}, json)


def at_cursor(call: Call[Page[T]], cursor: str | None) -> Call[Page[T]]:
    """Returns the request for the page at a cursor. None: the first page."""
    return call if cursor is None else replace(call, query={**call.query, "cursor": cursor})


def is_id(text: Id) -> bool:
    """Whether this is an id rather than a name."""
    try:
        UUID(str(text))
    except ValueError:
        return False
    return True
