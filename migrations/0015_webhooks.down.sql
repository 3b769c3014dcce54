-- Loses all webhooks: endpoints, their secrets, and deliveries, also those that were not sent yet.
drop trigger webhooks_of_dag_end on kb.task_dags;
drop trigger webhooks_of_question on kb.questions;
drop trigger webhooks_of_run_end on kb.agent_runs;
drop function kb.note_dag_end(), kb.note_question(), kb.note_run_end();
drop function kb.add_webhook_deliveries(uuid, text, uuid, json);
drop function kb.add_webhook_delivery(uuid, uuid, text, uuid, json);
drop function kb.enqueue_webhook_delivery(uuid, uuid, uuid, uuid), kb.webhook_time(timestamptz);
drop table kb.webhook_deliveries, kb.webhook_secrets, kb.webhook_endpoints;
delete from queue.jobs where kind = 'webhook.deliver';
