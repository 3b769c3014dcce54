-- Loses: what tools have asked their users, and the answers. Calls that wait for them end as outcome_unknown.
delete from kb.questions where form_field is not null;
drop index kb.questions_call, kb.questions_one_per_call;
alter table kb.questions add constraint questions_tool_call_id_key unique (tool_call_id);
alter table kb.questions drop column form_field;
alter table kb.agent_run_tool_calls drop column awaited_input;
