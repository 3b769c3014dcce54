-- Loses: the events that are in object storage. Cursors before them get 410; the objects stay in the store.
drop trigger archives_before_the_beginning on stream.logs;
drop function stream.remove_old_archives();
drop function stream.archived_after(uuid, bigint);
-- Numbers are never given again.
update stream.logs set oldest_seq = archived_seq + 1 where archived_seq >= oldest_seq;
-- A column goes. Its grants come from the schema's default privileges.
drop view stream.log_ends;
create view stream.log_ends as
    select l.log_id,
           l.oldest_seq,
           -- Retention moves oldest_seq past what it removes: without events, the next one has that number.
           coalesce((select e.seq from stream.events e
                     where e.log_id = l.log_id and e.seq >= l.oldest_seq
                     order by e.seq desc limit 1), l.oldest_seq - 1) as last_seq
    from stream.logs l;
alter table stream.upkeep
    drop column archiver_until,
    drop column archiver,
    drop column archived_run,
    drop column archived_at;
drop table stream.archives;
drop function stream.note_archive();
drop table stream.archive_leftovers;
alter table stream.logs drop column archived_seq;
