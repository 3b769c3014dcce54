// The calendar's arithmetic with days, clocks and series: pure functions, without a browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loaded } from './support/bundle.mjs';

process.env.TZ = 'Europe/Berlin';
const pure = await loaded(['calendar/days', 'calendar/draft', 'calendar/layoutEvents']);

test('clocks that skip an hour or show it twice are read as the server reads them', () => {
  const at = (wall, zone = 'Europe/Berlin') => new Date(pure.momentOf(wall, zone)).toISOString().slice(0, 16);
  assert.equal(at('2026-03-29T01:59'), '2026-03-29T00:59');
  assert.equal(at('2026-03-29T02:30'), '2026-03-29T01:30', 'skipped: an hour later');
  assert.equal(at('2026-10-25T02:30'), '2026-10-25T00:30', 'shown twice: the first');
  assert.equal(at('2026-10-25T03:00'), '2026-10-25T02:00');
  assert.equal(at('2018-11-04T00:00', 'America/Sao_Paulo'), '2018-11-04T03:00', 'a midnight that was skipped');
  assert.equal(at('2026-01-01T00:00', 'Pacific/Kiritimati'), '2025-12-31T10:00');
  assert.equal(pure.HERE, 'Europe/Berlin');
});

test('months are whole weeks that begin on Mondays, and their ends are where they are', () => {
  const weeks = (day) => pure.monthOf(day).map((week) => [week[0], week.at(-1)]);
  assert.deepEqual(weeks('2027-02-14'), [
    ['2027-02-01', '2027-02-07'],
    ['2027-02-08', '2027-02-14'],
    ['2027-02-15', '2027-02-21'],
    ['2027-02-22', '2027-02-28'],
  ]);
  assert.deepEqual(weeks('2026-03-31').at(0), ['2026-02-23', '2026-03-01']);
  assert.deepEqual(weeks('2026-03-31').at(-1), ['2026-03-30', '2026-04-05']);
  assert.equal(pure.plusMonths('2026-01-31', 1), '2026-02-28');
  assert.equal(pure.plusMonths('2026-01-31', -2), '2025-11-30');
  assert.equal(pure.dayFrom('2026-02-31'), '2026-03-03');
  assert.equal(pure.dayFrom('yesterday'), undefined);
});

test('all of a series moves as far as one of it does, whatever zone it is in', () => {
  const series = {
    id: 's',
    version: 4,
    title: 'T',
    location: '',
    description: '',
    start: '2026-03-02T09:00:00+09:00',
    end: '2026-03-02T10:00:00+09:00',
    allDay: false,
    timeZone: 'Asia/Tokyo',
    rrule: 'FREQ=WEEKLY',
  };
  const occurrence = {
    eventId: 's',
    title: 'T',
    location: '',
    start: '2026-04-06T09:00:00+09:00',
    end: '2026-04-06T10:00:00+09:00',
    allDay: false,
    timeZone: 'Asia/Tokyo',
    recurring: true,
  };
  const before = pure.draftOf(occurrence, series);
  const all = pure.targetOf(occurrence, series, null, 'all');
  assert.deepEqual([all.path, all.version], ['/api/calendar-events/s', 4]);
  assert.deepEqual(pure.different(before, before, all.all), {}, 'what is not different is not said');
  assert.deepEqual(pure.different(before, { ...before, startTime: '08:30' }, all.all), {
    start: '2026-03-02T08:30',
    end: '2026-03-02T10:00',
    allDay: false,
    timeZone: 'Asia/Tokyo',
  });
  const whole = { ...before, allDay: true, startDay: '2026-04-07', endDay: '2026-04-08' };
  assert.deepEqual(pure.different(before, whole, all.all), {
    start: '2026-03-03',
    end: '2026-03-05',
    allDay: true,
    timeZone: 'Asia/Tokyo',
  });
  const following = pure.targetOf(occurrence, series, null, 'following');
  assert.equal(following.path, '/api/calendar-events/s?scope=following&occurrence=2026-04-06T00%3A00%3A00.000Z');
  // One that was changed is an event of its own, and begins, for its series, when it would have.
  const own = {
    ...series,
    id: 'o',
    version: 1,
    rrule: null,
    seriesId: 's',
    replacesOccurrence: '2026-04-06T00:00:00Z',
    start: '2026-04-06T12:00:00+09:00',
    end: '2026-04-06T13:00:00+09:00',
  };
  const changed = { ...occurrence, eventId: 'o', start: own.start, end: own.end };
  assert.equal(pure.targetOf(changed, own, series, 'this').path, '/api/calendar-events/o');
  const moved = pure.targetOf(changed, own, series, 'all');
  const draft = pure.draftOf(changed, own);
  assert.deepEqual(pure.different(draft, { ...draft, endTime: '14:00' }, moved.all), {
    start: '2026-03-02T12:00',
    end: '2026-03-02T14:00',
    allDay: false,
    timeZone: 'Asia/Tokyo',
  });
});
