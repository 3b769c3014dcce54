-- Loses which schemas the answers of runs had to fit.
alter table kb.agent_runs drop column output_schema;
