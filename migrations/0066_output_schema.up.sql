-- Answers as data: the JSON schema that a run's answer has to fit.

alter table kb.agent_runs
    -- Of its request, else of its agent's definition when it was made; null: any text.
    add column output_schema jsonb;
