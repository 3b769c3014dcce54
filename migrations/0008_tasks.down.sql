-- Loses schedules, plans and DAGs of tasks.
drop table kb.schedules, kb.agent_plan_versions, kb.agent_plans, kb.tasks, kb.task_dags;
drop function kb.parallel_tasks(uuid);
