-- Loses the epochs: readers that name one get a snapshot once.
drop function stream.epoch();
drop table stream.epochs;
