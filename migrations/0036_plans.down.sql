update kb.questions set kind = 'confirm' where kind = 'plan';
alter table kb.questions
    drop constraint questions_kind_check,
    add constraint questions_kind_check check (kind in ('ask', 'confirm', 'task'));
alter table kb.agent_runs drop column part;
alter table kb.task_dags drop column log_id, drop column plan_id;
drop table kb.agent_plan_versions;
drop table kb.agent_plans;
