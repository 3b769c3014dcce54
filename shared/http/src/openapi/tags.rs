//! The descriptions of the tags by which the OpenAPI document groups operations.

/// Each tag with its description. A new tag needs an entry: `scripts/openapi-lint.sh` reports one without.
const TAGS: [(&str, &str); 53] = [
    ("AI SDK", "`useChat` of the AI SDK."),
    (
        "Durable Streams",
        "Events of conversations and runs, for clients of Durable Streams.",
    ),
    ("a2a", "Tasks for clients of A2A."),
    ("ag-ui", "Runs and threads for clients of AG-UI."),
    (
        "agent definitions",
        "Configuration of agents: prompt, model, tools and limits.",
    ),
    (
        "agent stream",
        "Turns in the format of earlier chat pages, and data that is fetched before a first message.",
    ),
    (
        "agents",
        "The agents that a caller may choose, and the agent card of A2A.",
    ),
    ("audit", "The audit log of a project."),
    (
        "calendar events",
        "Events of calendars, and their links to entities of the work graph.",
    ),
    (
        "calendars",
        "Calendars, their iCalendar files and feeds, and Google Calendar.",
    ),
    (
        "callers",
        "The caller's rights, sessions of browsers, and members of a project.",
    ),
    ("chat", "Sends a message and streams the turn that answers it."),
    (
        "consoles",
        "Consoles: texts such as queries that users and agents edit together.",
    ),
    ("contexts", "Types of contexts that conversations may have."),
    ("conversations", "Conversations, their messages and their events."),
    (
        "custom prompts",
        "Prompts of projects and users that all agents receive.",
    ),
    ("data sources", "Databases that agents may query, and queries on them."),
    (
        "evaluations",
        "Sets of questions, and agents that are evaluated with them.",
    ),
    ("files", "Uploads, and files that tools have made."),
    ("graph", "The knowledge graph: search, import, export."),
    ("graph objects", "Objects of the knowledge graph, and their versions."),
    (
        "graph packs",
        "Template packs: object and relationship types with their schemas.",
    ),
    (
        "graph relationships",
        "Relationships of the knowledge graph, and their versions.",
    ),
    (
        "history",
        "The records of runs: their messages and tool calls, at three levels of detail.",
    ),
    ("invitations", "Links with which users join a project."),
    ("keys", "API keys of a project."),
    (
        "mcp accounts",
        "The caller's accounts at MCP servers whose tools act for each user.",
    ),
    ("mcp servers", "MCP servers of a project, and their tools."),
    ("model prices", "A project's prices of models."),
    ("models", "The model catalogue."),
    ("onto", "Entities of the work graph."),
    ("onto documents", "The document tree of a project in the work graph."),
    ("onto edges", "Links between entities of the work graph."),
    ("onto projects", "Projects of the work graph."),
    (
        "openai",
        "OpenAI's protocols: Responses, Chat Completions, Conversations, Models, Files.",
    ),
    ("operation", "Health and metrics of a process, for its operator."),
    ("operations", "Queues, throughput, dead jobs and workers."),
    ("plans", "Agents' plans and their progress."),
    (
        "products",
        "Products: packs, agents and MCP servers that one manifest installs.",
    ),
    ("query patterns", "Queries learned from the caller's questions."),
    ("questions", "Questions of runs to users, and their answers."),
    (
        "remote workers",
        "Programs that serve tools to agents: registrations, calls, results.",
    ),
    ("routing", "The assignment of agents to new conversations."),
    (
        "runs",
        "Runs: their state and events, and starting, steering, resuming and cancelling them.",
    ),
    ("schedules", "Agents and task DAGs that start at set times."),
    ("sessions", "Sessions of browsers: listed and ended."),
    ("sign in", "Browsers that sign in and out at the identity provider."),
    ("sharing", "Links by which a conversation is read without signing in."),
    ("streams", "Tickets with which a browser's EventSource reads a stream."),
    ("task dags", "DAGs of tasks that agents execute."),
    ("usage", "A project's usage of today."),
    ("web", "A project's settings of web search and web reading."),
    (
        "webhooks",
        "Events of a project that are sent to its URLs: endpoints and deliveries.",
    ),
];

/// The description of a tag.
pub fn description(tag: &str) -> Option<&'static str> {
    TAGS.iter()
        .find(|(name, _)| *name == tag)
        .map(|(_, description)| *description)
}
