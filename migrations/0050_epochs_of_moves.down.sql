-- Loses the epochs that moved projects have brought: readers that name one get a snapshot once.
drop function cells.brought_epoch(uuid);
drop table cells.epochs;
