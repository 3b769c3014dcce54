drop function kb.parallel_tasks;
alter table kb.projects drop column parallel_tasks;
alter table kb.agent_runs drop column task_id;
drop table kb.tasks, kb.task_dags;
