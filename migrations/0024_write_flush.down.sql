drop function stream.write(bigint, uuid[], uuid[], int[], bigint[], bigint[], int[], int[], uuid[], text[], text[]);
alter table stream.events drop column flush_id;
