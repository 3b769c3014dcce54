-- Loses all jobs.
drop schema queue cascade;
