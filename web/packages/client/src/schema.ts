/**
 * Generated from the OpenAPI document by `npm run types` in `web`: do not edit. `wire` gives the public names.
 */
export interface components {
    schemas: {
        Accepted: {
            /** Format: uuid */
            conversationId: string;
            /**
             * Format: int64
             * @description Sequence number after which to start reading to get the whole turn
             */
            cursor: number;
            /** Format: uuid */
            messageId: string;
            /** Format: uuid */
            runId: string;
        };
        /** @description An agent that the caller can choose */
        AgentItem: {
            description: string;
            /** @description `single`, `sequential`, `loop`, `parallel`, `discussion` or `function` */
            flowType: string;
            /** Format: uuid */
            id: string;
            /** @description Whether it is the project's default */
            isDefault: boolean;
            name: string;
        };
        /**
         * @description The state of an agent.
         * @enum {string}
         */
        AgentState: "thinking" | "executing_plan" | "waiting_on_user" | "waiting_on_agents";
        /** @description The agent begins to think, or waits. */
        AgentStateEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            contextType?: string;
            details?: unknown;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description `thinking`, `executing_plan`, `waiting_on_user` or `waiting_on_agents`. */
            state: components["schemas"]["AgentState"];
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "agent_state";
        };
        /** @description The run that wrote an answer, and what it used */
        AnswerBody: {
            /** @description The agent's name at that time */
            agent?: string | null;
            /** Format: uuid */
            agentDefinitionId?: string | null;
            /**
             * Format: int32
             * @description The version of the agent
             */
            agentVersion?: number | null;
            /**
             * Format: int64
             * @description From the run's start to its end
             */
            durationMs?: number | null;
            model?: string | null;
            /** Format: uuid */
            runId: string;
            /** @description `completed`, `failed`, `cancelled` or `paused`; another state if the run was resumed */
            state: string;
            /**
             * Format: double
             * @description Cost of these, in dollars
             */
            treeCostUsd: number;
            /**
             * Format: int64
             * @description Input and output tokens of the run and of all runs that it started
             */
            treeTokens: number;
            /** @description Tokens and cost of the run alone: `inputTokens`, `outputTokens`, `totalTokens`, `costUsd`, `steps` */
            usage: unknown;
        };
        /**
         * @description The state of a run.
         * @enum {string}
         */
        AnsweringState: "queued" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled";
        /** @description All events that the log had when the reader connected have been sent; the following ones are live. */
        CaughtUpFrame: {
            /**
             * Format: int64
             * @description The number of the last one of them.
             */
            through: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "caught_up";
        };
        /** @description All questions of a step to its user. Each is answered individually, or all of them by the user's next message. */
        ClarifyingQuestionsEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            questions: Record<string, never>[];
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "clarifying_questions";
        };
        /** @description An agent has opened a console. */
        ConsoleCreationEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /** Format: uuid */
            consoleId: string;
            content: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            title: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "console_creation";
            /** Format: int32 */
            version: number;
        };
        /** @description An agent has changed a console's text, which now has this version. */
        ConsoleModificationEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /** Format: uuid */
            consoleId: string;
            /** @description {action `replace` | `insert` | `append` | `patch`, content, position?, startLine?, endLine?} */
            modification: Record<string, never>;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "console_modification";
            /** Format: int32 */
            version: number;
        };
        /** @description A change of a conversation's context. (Its field names are those known to such chat pages.) */
        ContextShift: {
            entity_id: string;
            entity_name: string;
            entity_type: string;
            message: string;
            new_context: string;
        };
        /** @description A tool has changed the conversation's context. */
        ContextShiftEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            context_shift: components["schemas"]["ContextShift"];
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "context_shift";
        };
        /** @description How full the model's context window is. */
        ContextUsage: {
            /** Format: int64 */
            estimatedTokens: number;
            /** @description When the history was last compressed. */
            lastCompressedAt?: string | null;
            lastCompression?: Record<string, never> | null;
            /**
             * Format: int64
             * @description The size of the model's context window, if it is known.
             */
            modelContextTokens?: number;
            status: components["schemas"]["ContextUsageStatus"];
            /**
             * Format: int64
             * @description Recommended maximum size of a turn's context, in tokens.
             */
            tokenBudget: number;
            /** Format: int64 */
            tokensRemaining: number;
            /**
             * Format: int64
             * @description At most 999.
             */
            usagePercent: number;
        };
        /** @description How full the model's context window is: an estimate at the start of the turn, the actual figure at its end. */
        ContextUsageEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "context_usage";
            usage: components["schemas"]["ContextUsage"];
        };
        /**
         * @description How the context relates to its budget.
         * @enum {string}
         */
        ContextUsageStatus: "ok" | "near_limit" | "over_budget";
        ConversationBody: {
            /** Format: uuid */
            agentDefinitionId?: string | null;
            /** Format: date-time */
            createdAt: string;
            /** Format: uuid */
            id: string;
            marks?: components["schemas"]["ConversationMarks"] | null;
            metadata: unknown;
            title: string;
            /** Format: date-time */
            updatedAt: string;
        };
        /** @description How a conversation is arranged, and how it stands */
        ConversationMarks: {
            /**
             * Format: int32
             * @description The version of its agent that it stays with; null: the newest
             */
            agentVersion?: number | null;
            archived: boolean;
            /** Format: uuid */
            folderId?: string | null;
            /**
             * Format: int64
             * @description Sequence number of the last message; 0: there is none
             */
            lastMessageSeq: number;
            /**
             * Format: int64
             * @description Sequence number of the last message that was marked as read; null: never marked, everything counts as read
             */
            lastReadSeq?: number | null;
            pinned: boolean;
            /** @description Whether a run is queued, is at work or waits */
            running: boolean;
            /**
             * Format: int64
             * @description Number of answers after `lastReadSeq`, up to 100
             */
            unread: number;
        };
        /** @description An event of a user's program, which it has emitted while it executed a tool or the turn of an agent. */
        CustomEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /** @description The call of the tool. None: the turn of an agent. */
            callId?: string;
            /** @description Any JSON. */
            data: unknown;
            /** @description 1 to 64 letters, digits, `_`, `.`, `:` and `-`. */
            name: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "custom";
        };
        /** @description The model's input, if the operator has enabled it. */
        DebugContextEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            debug: Record<string, never>;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "debug_context";
        };
        /** @description Exactly one per turn; no event of that turn follows it. */
        DoneEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /** Format: uuid */
            finalMessageId?: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            status: components["schemas"]["DoneStatus"];
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "done";
            usage?: components["schemas"]["UsageTotals"];
        };
        /**
         * @description How a turn ended.
         * @enum {string}
         */
        DoneStatus: "completed" | "failed" | "cancelled" | "paused";
        /** @description Always before `done`. */
        ErrorEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            code: string;
            error: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            retryable: boolean;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "error";
        };
        /** @description A chat message on the wire. */
        EventMessage: {
            attachedContext?: unknown;
            /** @description The attached files. */
            attachments?: components["schemas"]["FileRef"][];
            citations?: unknown[];
            content: string;
            /**
             * Format: date-time
             * @description RFC 3339.
             */
            createdAt: string;
            /** Format: uuid */
            id: string;
            role: components["schemas"]["MessageRole"];
        };
        /** @description An agent's plan. */
        EventPlan: {
            /** Format: uuid */
            conversationId?: string | null;
            /**
             * Format: uuid
             * @description The task DAG that executes it.
             */
            dagId?: string | null;
            executionMode: components["schemas"]["ExecutionMode"];
            /** Format: uuid */
            id: string;
            metadata: Record<string, never>;
            objective: string;
            /**
             * Format: uuid
             * @description The plan that it replaces.
             */
            revisesPlanId: string | null;
            /**
             * Format: uuid
             * @description The run that created it.
             */
            runId: string;
            /** @description `pending`, `pending_review`, `executing`, `completed`, `completed_with_errors` or `failed`. */
            status: string;
            steps: components["schemas"]["EventPlanStep"][];
            /** @description `planner_stream`, `ask_clarifying_questions` or `project_creation`. */
            strategy?: string;
            userMessage?: string;
            /** Format: int32 */
            version: number;
        };
        /** @description A step of a plan. */
        EventPlanStep: {
            /** @description The numbers of the steps before it. */
            dependsOn: number[];
            description: string;
            error?: string;
            /** @description Whether a separate run executes it. */
            executorRequired: boolean;
            result?: string;
            status: components["schemas"]["PlanStepStatus"];
            /** Format: int32 */
            stepNumber: number;
            /** @description Names and globs of tools. */
            tools: string[];
            /** @description The kind of work, such as `research` or `action`. */
            type: string;
        };
        /**
         * @description When the steps of a plan are executed: at once, not at all, or after a review.
         * @enum {string}
         */
        ExecutionMode: "auto_execute" | "draft_only" | "agent_review";
        /** @description The result of a separate run for a step. */
        ExecutorResult: {
            error?: string | null;
            success: boolean;
            summary?: string | null;
        };
        /** @description The result of that run. */
        ExecutorResultEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /** Format: uuid */
            executorId: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            result: components["schemas"]["ExecutorResult"];
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "executor_result";
        };
        /** @description A separate run executes a step of a plan: `executorId` is its id. */
        ExecutorSpawnedEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /** Format: uuid */
            executorId: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            task: components["schemas"]["StepTask"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "executor_spawned";
        };
        /** @description A reference to a file in messages, events and tool results. */
        FileRef: {
            /** Format: uuid */
            fileId: string;
            mediaType: string;
            name: string;
            /** @description Hexadecimal. */
            sha256: string;
            /** Format: int64 */
            sizeBytes: number;
        };
        /** @description A project of the work graph, or one entity in it. */
        Focus: {
            /** Format: uuid */
            focusEntityId?: string;
            /** @description The type of the entity, such as `task`. */
            focusType?: string;
            /**
             * Format: uuid
             * @description The graph object of type `project`.
             */
            projectId: string;
            projectName?: string;
        };
        /** @description The conversation's context at the start of the turn. */
        FocusActiveEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            focus: components["schemas"]["Focus"];
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "focus_active";
        };
        /** @description The conversation's context changes. Null: it has none. */
        FocusChangedEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            focus: components["schemas"]["Focus"] | null;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId?: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "focus_changed";
        };
        ForkedFrom: {
            /** Format: uuid */
            runId: string;
            /**
             * Format: int32
             * @description The last copied step
             */
            step: number;
        };
        /** @description Retention has removed the events between the cursor and `oldest`. A `snapshot` follows. */
        GapFrame: {
            /**
             * Format: int64
             * @description The reader's cursor.
             */
            after: number;
            /**
             * Format: int64
             * @description The number of the oldest event that the log has.
             */
            oldest: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "gap";
        };
        /** @description The server is shutting down: reconnect with the cursor. */
        GoawayFrame: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "goaway";
        };
        /** @description Another agent continues the run. */
        HandoffEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /**
             * Format: uuid
             * @description The definition of the new agent.
             */
            agentDefinitionId?: string;
            from: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            reason?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            to: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "handoff";
        };
        /** @description The context of the previous turn; at the end of a turn, of this one. */
        LastTurnContextEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            context: Record<string, never>;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "last_turn_context";
        };
        /** @description A limit was reached. */
        LimitEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /** @description A stable code. */
            limit: string;
            message: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "limit";
        };
        /** @description A tool call begins or ends. `started` precedes the call. */
        McpToolEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            callId: string;
            /** Format: int64 */
            durationMs?: number;
            error?: string;
            input?: unknown;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            result?: unknown;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            status: components["schemas"]["ToolStatus"];
            /** @description The number of the plan's step. */
            stepNumber?: number;
            tool: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "mcp_tool";
        };
        MessageBody: {
            answer?: components["schemas"]["AnswerBody"] | null;
            /** @description Context that the client sent with a user's message */
            attachedContext?: unknown;
            /**
             * @description All attachments of the message: consoles, databases and files, each {id, type, title, content, metadata,
             *     timestamp}; for an uploaded file also fileId, mediaType, sizeBytes and url
             */
            attachments: Record<string, never>[];
            citations?: unknown;
            content: string;
            /** Format: uuid */
            conversationId: string;
            /** Format: date-time */
            createdAt: string;
            /** Format: uuid */
            id: string;
            metadata: unknown;
            /** @description For an assistant's message: the run that wrote it */
            retrievalContext?: unknown;
            /** @description `user`, `assistant` or `system`; with `include=tools` also `tool`: a tool's result or error */
            role: string;
            /**
             * Format: int64
             * @description Sequence number of its event; for a tool's result, that of the message of its turn
             */
            seq: number;
            /**
             * Format: date-time
             * @description The same as `createdAt`
             */
            timestamp: string;
            /** @description For a tool's result: the call that it answers */
            toolCallId?: string | null;
            /** @description For a tool's result: the tool's name */
            toolName?: string | null;
        };
        /** @description A message was stored: the user's immediately, the assistant's at the end. */
        MessageEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            message: components["schemas"]["EventMessage"];
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId?: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "message";
        };
        /**
         * @description The author of a message.
         * @enum {string}
         */
        MessageRole: "user" | "assistant" | "system";
        /** @description The turn begins. */
        MetaEvent: {
            agent?: string;
            /** Format: uuid */
            agentDefinitionId?: string;
            /** Format: int32 */
            attempt: number;
            citations: unknown[];
            /** Format: uuid */
            conversationId?: string;
            /** @description The answering model. */
            model: string;
            /** @description The definition's model, if another one answers. */
            modelRequested?: string;
            /** @description The day on which its provider retired that model. */
            modelRetiredOn?: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "meta";
        };
        /** @description The stream has begun. */
        OpenFrame: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "open";
        };
        /** @description A tool's operation on an entity, in words for users. (Its field names are those known to such chat pages.) */
        Operation: {
            /** @description `list`, `search`, `read`, `create`, `update` or `delete`. */
            action: string;
            /** Format: uuid */
            entity_id?: string;
            /** @description The entity's name, or the search terms; never empty. */
            entity_name: string;
            /** @description `document`, `task`, `goal`, `plan`, `project`, `milestone`, `risk` or `requirement`. */
            entity_type: string;
            /** @description `start`, `success` or `error`. */
            status: components["schemas"]["OperationStatus"];
        };
        /** @description A tool's operation on an entity, for users: by name, never by id alone. */
        OperationEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            operation: components["schemas"]["Operation"];
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "operation";
        };
        /**
         * @description The state of a tool's operation.
         * @enum {string}
         */
        OperationStatus: "start" | "success" | "error";
        /**
         * @description The structured output, if a JSON Schema requires it. Precedes the assistant's message, whose text is the same as
         *     JSON.
         */
        OutputEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            output: unknown;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "output";
        };
        /** @description An agent has made a plan. */
        PlanCreatedEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            plan: components["schemas"]["EventPlan"];
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "plan_created";
        };
        /** @description A draft plan waits for the user's approval. */
        PlanReadyForReviewEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            plan: components["schemas"]["EventPlan"];
            recommendations?: string[];
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            summary?: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "plan_ready_for_review";
        };
        /** @description A draft plan was reviewed. */
        PlanReviewEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            notes?: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            plan: components["schemas"]["EventPlan"];
            /** @description `user`, or the name of the reviewing agent. */
            reviewer?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "plan_review";
            /** @description `approved`, `changes_requested` or `rejected`. */
            verdict: components["schemas"]["PlanVerdict"];
        };
        /**
         * @description The state of a plan's step.
         * @enum {string}
         */
        PlanStepStatus: "pending" | "executing" | "completed" | "failed" | "skipped";
        /**
         * @description The result of a plan's review.
         * @enum {string}
         */
        PlanVerdict: "approved" | "changes_requested" | "rejected";
        Prewarmed: {
            /** @description Whether this request created the session */
            created: boolean;
            /**
             * Format: double
             * @description How long the prefetched data is used unless the project changes, in seconds
             */
            keptS: number;
            session: components["schemas"]["ConversationBody"];
            /** @description Whether a project was prefetched */
            warmed: boolean;
        };
        /** @description A step of a plan as its execution begins or ends. */
        ProgressStep: components["schemas"]["EventPlanStep"] & {
            /** Format: int32 */
            attempt?: number;
            /** Format: uuid */
            planId: string;
        };
        /** @description A question was answered, expired or was cancelled. */
        QuestionAnsweredEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            answer?: unknown;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /** Format: uuid */
            questionId: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description `answered`, `expired` or `cancelled`. */
            status: components["schemas"]["QuestionOutcome"];
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "question_answered";
        };
        QuestionBody: {
            answer?: unknown;
            /** Format: date-time */
            answeredAt?: string | null;
            /** Format: date-time */
            createdAt: string;
            /** Format: uuid */
            id: string;
            /** @description `buttons`, `select`, `multi_select`, `text`, `confirm` or `client_tool` */
            interactionType: string;
            /** @description `ask`: an agent's question; `confirm`: confirmation of a tool call; `client_tool`: a call that the client executes */
            kind: string;
            /** Format: int32 */
            maxLength?: number | null;
            /** @description `{label, value, description?}` */
            options: unknown;
            placeholder?: string | null;
            question: string;
            /** Format: uuid */
            runId: string;
            /** @description `pending`, `answered`, `expired` or `cancelled` */
            status: string;
            /**
             * Format: uuid
             * @description The tool call that asks, or that waits for confirmation; its arguments are in the run's history
             */
            toolCallId?: string | null;
        };
        /** @description The run waits for a person, or for its client. */
        QuestionEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /** @description The call that waits: of a client's tool for its output (interaction type `client_tool`), or for an approval. */
            callId?: string;
            /** @description Also contained in `clarifying_questions`. */
            clarifying?: boolean;
            /** @description The arguments of that call. */
            input?: unknown;
            /** @description `buttons`, `select`, `multi_select`, `text`, `confirm` or `client_tool`. */
            interactionType: string;
            options: components["schemas"]["QuestionOption"][];
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            question: string;
            /** Format: uuid */
            questionId: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            tool?: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "question";
        };
        /** @description A possible answer to a question. */
        QuestionOption: {
            description?: string;
            label: string;
            value: string;
        };
        /**
         * @description How a question ended.
         * @enum {string}
         */
        QuestionOutcome: "answered" | "expired" | "cancelled";
        /** @description A part of the model's reasoning. */
        ReasoningEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            text: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "reasoning";
        };
        /** @description Discard this run's events after the number `discardAfter` and before this one: the step is written again. */
        ResetEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /** Format: int32 */
            attempt: number;
            /** Format: int64 */
            discardAfter: number;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            reason: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "reset";
        };
        /**
         * @description The log was taken back before the cursor: the database was restored, or a failover lost its last commits. Discard everything; a `snapshot`
         *     follows.
         */
        RewoundFrame: {
            /**
             * Format: int64
             * @description The reader's cursor.
             */
            after: number;
            /**
             * Format: int64
             * @description The number of the last event that the log has now.
             */
            last: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "rewound";
        };
        /** @description A run as lists show it. */
        RunBody: {
            /** @description The agent's name at that time */
            agent?: string | null;
            /** Format: uuid */
            agentDefinitionId?: string | null;
            /**
             * Format: int32
             * @description The version of the agent
             */
            agentVersion?: number | null;
            /** Format: int32 */
            attempt: number;
            /** Format: date-time */
            cancelRequestedAt?: string | null;
            /** Format: uuid */
            conversationId?: string | null;
            /** Format: date-time */
            createdAt: string;
            /** Format: int32 */
            depth: number;
            /**
             * Format: int64
             * @description Duration from start to end; null while it is active
             */
            durationMs?: number | null;
            error?: string | null;
            errorCode?: string | null;
            /** Format: date-time */
            finishedAt?: string | null;
            /** Format: uuid */
            id: string;
            /** @description The beginning of its input, at most 200 characters */
            inputPreview?: string | null;
            model?: string | null;
            /** Format: uuid */
            parentRunId?: string | null;
            /** @description A run of another member: only ids, agent, state and times are returned, the rest is empty */
            restricted: boolean;
            /** Format: uuid */
            rootRunId: string;
            /** Format: date-time */
            startedAt?: string | null;
            /** @description `queued`, `running`, `waiting`, `paused`, `completed`, `failed` or `cancelled` */
            state: string;
            /** @description The same as `state` */
            status: string;
            /** Format: int32 */
            stepCount: number;
            /**
             * Format: int32
             * @description Number of steps, over all resumes
             */
            totalSteps: number;
            /** @description Tokens and cost */
            usage: unknown;
        };
        /** @description A run in detail. */
        RunDetail: components["schemas"]["RunBody"] & {
            /** @description The runs that it started */
            children: string[];
            /**
             * Format: int64
             * @description Sequence number after which to start reading to get all its events
             */
            cursor: number;
            /**
             * Format: int64
             * @description Sequence number of its `done`
             */
            doneSeq?: number | null;
            /**
             * Format: uuid
             * @description The assistant's message at its end
             */
            finalMessageId?: string | null;
            forkedFrom?: components["schemas"]["ForkedFrom"] | null;
            /** @description The run's input */
            input: string;
            /**
             * Format: uuid
             * @description The user's message that it answers
             */
            messageId?: string | null;
            /** @description The answer as data, if a schema was given */
            output?: Record<string, never> | null;
            /** @description The JSON Schema that its answer must match */
            outputSchema?: Record<string, never> | null;
            /** @description The run's output */
            summary?: string | null;
        };
        /** @description A sub-agent of the turn. */
        SnapshotAgent: {
            /** @description The length of its starter's text before it began, as counted by [`length`]. */
            afterText: number;
            agent?: string;
            /** Format: uuid */
            parentRunId?: string;
            /** Format: uuid */
            runId: string;
            /** @description `plan_step`, if it executes the step `step_number` of a plan. */
            source?: string;
            /** @description `started`, or how it ended. */
            status: components["schemas"]["SubAgentStatus"];
            /** Format: int32 */
            stepNumber?: number;
            task?: string;
            /** @description Its text so far. */
            text: string;
            toolCalls?: components["schemas"]["SnapshotToolCall"][];
        };
        /** @description The state of a log at a number. It stands for all events up to it. */
        SnapshotFrame: {
            /** @description The newest 200. */
            messages: components["schemas"]["SnapshotMessage"][];
            /**
             * Format: int64
             * @description The number of the last event included; live events continue from here.
             */
            through: number;
            turn: components["schemas"]["SnapshotTurn"] | null;
            /**
             * @description The value of a snapshot's `type`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "snapshot";
        };
        /** @description A message in a snapshot. */
        SnapshotMessage: {
            attachments?: components["schemas"]["FileRef"][];
            citations?: unknown[] | null;
            content: string;
            /**
             * Format: date-time
             * @description RFC 3339.
             */
            createdAt: string;
            /** Format: uuid */
            id: string;
            /** @description Of an assistant's message; its `agent_run_id` is the run that wrote it. */
            retrievalContext?: Record<string, never> | null;
            role: components["schemas"]["MessageRole"];
            /**
             * Format: uuid
             * @description Of a user's message: the run that answers it.
             */
            runId?: string | null;
            runState?: components["schemas"]["AnsweringState"] | null;
            /**
             * Format: int64
             * @description The number of its event.
             */
            seq: number;
        };
        /** @description A tool call of the turn. */
        SnapshotToolCall: {
            /** @description The length of the text before it began, as counted by [`length`]: a reader interleaves text and calls by it. */
            afterText: number;
            callId: string;
            error?: string;
            input?: unknown;
            result?: unknown;
            status: components["schemas"]["ToolStatus"];
            tool: string;
        };
        /** @description The state of a turn so far. */
        SnapshotTurn: {
            /** @description Its sub-agents, in order of their start. */
            agents?: components["schemas"]["SnapshotAgent"][];
            /** @description How full the model's context window is. */
            contextUsage?: components["schemas"]["ContextUsage"];
            meta?: components["schemas"]["MetaEvent"];
            /** @description Its operations: the latest state of each, in the order in which they began. */
            operations?: components["schemas"]["Operation"][];
            /** @description Its newest plan, with the current state of its steps. */
            plan?: components["schemas"]["EventPlan"];
            questions?: components["schemas"]["QuestionEvent"][];
            reasoning?: string;
            /** Format: uuid */
            runId: string;
            /** @description The reply's text so far. */
            text: string;
            toolCalls: components["schemas"]["SnapshotToolCall"][];
        };
        /** @description A step of the plan has ended. */
        StepCompleteEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            step: components["schemas"]["ProgressStep"];
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "step_complete";
        };
        /** @description A step of the plan begins. */
        StepStartEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            step: components["schemas"]["ProgressStep"];
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "step_start";
        };
        /** @description What a separate run executes of a plan. */
        StepTask: {
            agent?: string | null;
            description: string;
            /** Format: uuid */
            planId: string;
            /** Format: int32 */
            stepNumber: number;
            tools?: string[] | null;
        };
        /** @description The data of one frame of a stream of server-sent events. The response consists of frames, each with one such object as a line of JSON in its `data`. The `id` of a frame is the number of the event in its log, which is also the cursor for a later reader; frames about the connection (`open`, `caught_up`, `goaway`, `gap`, `rewound`) have no number. Ignore types that you do not know: later versions add some. */
        StreamEvent: components["schemas"]["MessageEvent"] | components["schemas"]["MetaEvent"] | components["schemas"]["TokenEvent"] | components["schemas"]["ReasoningEvent"] | components["schemas"]["McpToolEvent"] | components["schemas"]["ResetEvent"] | components["schemas"]["AgentStateEvent"] | components["schemas"]["UsageEvent"] | components["schemas"]["HandoffEvent"] | components["schemas"]["ConsoleCreationEvent"] | components["schemas"]["ConsoleModificationEvent"] | components["schemas"]["QuestionEvent"] | components["schemas"]["QuestionAnsweredEvent"] | components["schemas"]["SubAgentEvent"] | components["schemas"]["TelemetryEvent"] | components["schemas"]["ContextUsageEvent"] | components["schemas"]["FocusActiveEvent"] | components["schemas"]["FocusChangedEvent"] | components["schemas"]["LastTurnContextEvent"] | components["schemas"]["OperationEvent"] | components["schemas"]["ContextShiftEvent"] | components["schemas"]["PlanCreatedEvent"] | components["schemas"]["PlanReadyForReviewEvent"] | components["schemas"]["PlanReviewEvent"] | components["schemas"]["StepStartEvent"] | components["schemas"]["StepCompleteEvent"] | components["schemas"]["ExecutorSpawnedEvent"] | components["schemas"]["ExecutorResultEvent"] | components["schemas"]["ClarifyingQuestionsEvent"] | components["schemas"]["DebugContextEvent"] | components["schemas"]["LimitEvent"] | components["schemas"]["OutputEvent"] | components["schemas"]["CustomEvent"] | components["schemas"]["ErrorEvent"] | components["schemas"]["DoneEvent"] | components["schemas"]["SnapshotFrame"] | components["schemas"]["OpenFrame"] | components["schemas"]["CaughtUpFrame"] | components["schemas"]["GoawayFrame"] | components["schemas"]["GapFrame"] | components["schemas"]["RewoundFrame"];
        /** @description A sub-agent was started or has ended: `runId` is the sub-agent's. The turn continues. */
        SubAgentEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            code?: string;
            error?: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description `started`, `completed`, `failed`, `cancelled` or `paused`. */
            status: components["schemas"]["SubAgentStatus"];
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /** @description A summary of the result. */
            summary?: string;
            task?: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "sub_agent";
            usage?: components["schemas"]["UsageTotals"];
        };
        /**
         * @description The state of a sub-agent.
         * @enum {string}
         */
        SubAgentStatus: "started" | "completed" | "failed" | "cancelled" | "paused";
        /** @description How something was decided: `routing` describes the assignment of the conversation's agent. */
        TelemetryEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            data: unknown;
            name: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "telemetry";
        };
        /** @description A part of the reply; the increment only. */
        TokenEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            token: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "token";
        };
        /**
         * @description The state of a tool call.
         * @enum {string}
         */
        ToolStatus: "started" | "completed" | "error";
        /** @description Sent after each model call: sums over the run so far. */
        UsageEvent: {
            /** @description The agent's name, on events of sub-agents and plan steps. */
            agent?: string;
            /**
             * Format: int64
             * @description Input tokens written to the provider's prompt cache.
             */
            cacheWriteTokens?: number;
            /**
             * Format: int64
             * @description Input tokens read from the provider's prompt cache.
             */
            cachedTokens?: number;
            /** Format: double */
            costUsd?: number;
            /** Format: int64 */
            inputTokens: number;
            /** Format: int64 */
            outputTokens: number;
            /**
             * Format: uuid
             * @description The run that started it.
             */
            parentRunId?: string;
            /**
             * Format: int64
             * @description Output tokens spent on reasoning.
             */
            reasoningTokens?: number;
            /**
             * Format: uuid
             * @description The run that it comes from.
             */
            runId: string;
            /**
             * @description The component that it comes from.
             * @enum {string}
             */
            source?: "agent" | "planner" | "plan_step" | "sub_agent";
            /** @description The number of the plan's step. */
            stepNumber?: number;
            /** Format: int32 */
            steps: number;
            /** Format: int64 */
            totalTokens: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "usage";
        };
        /** @description Sums over a run. Empty, if no model was called. */
        UsageTotals: {
            /**
             * Format: int64
             * @description Input tokens written to the provider's prompt cache.
             */
            cacheWriteTokens?: number;
            /**
             * Format: int64
             * @description Input tokens read from the provider's prompt cache.
             */
            cachedTokens?: number;
            /**
             * Format: int64
             * @description The input of the last model call.
             */
            contextTokens?: number;
            /** Format: double */
            costUsd?: number;
            /** Format: int64 */
            inputTokens?: number;
            /** Format: int64 */
            outputTokens?: number;
            /**
             * Format: int64
             * @description Output tokens spent on reasoning.
             */
            reasoningTokens?: number;
            /** Format: int32 */
            steps?: number;
            /** Format: int64 */
            totalTokens?: number;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
