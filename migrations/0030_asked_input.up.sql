-- A tool may ask its user in the middle of a call (docs/decisions/0068-elicitation.md): its forms become questions, one for each field.

-- What a running call waits for, as its tool has asked: {round, needed: {asker, arguments, state, forms}}. Null: nothing. It is null again before the
-- call is made with the answers.
alter table kb.agent_run_tool_calls add column awaited_input jsonb;

-- The field of a tool's form that the question asks for: {form, round, name, required, schema}. Null: it is not a form's.
alter table kb.questions add column form_field jsonb;

-- A call asks once, or asks for approval once; besides, it may have any number of forms.
alter table kb.questions drop constraint questions_tool_call_id_key;
create unique index questions_one_per_call on kb.questions (tool_call_id) where form_field is null;
-- The fields of a call's forms; also for the removal of a call.
create index questions_call on kb.questions (tool_call_id);
