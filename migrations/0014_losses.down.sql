alter table queue.jobs drop column losses;
