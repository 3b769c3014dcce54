// Charts of the last hour, one column per minute. The pointer, or the arrow keys, choose a minute whose values are shown below. A text summary and
// the table below the charts serve readers who can't see them.
import { type ReactNode, useState } from 'react';
import type { Schemas } from '../api/http';
import { LOCALE, list, message, number, t } from '../ui/language';
import { duration } from '../ui/parts';

type Pace = Schemas['PaceBody'];
/** A time that the API has percentiles of. */
export type Time = 'waited' | 'firstToken' | 'took';

/** What a column is drawn in; the picture is stretched to its place. */
const COLUMN = 10;
const HEIGHT = 100;
const ENDS = ['completed', 'failed', 'cancelled'] as const;
const NAMES = {
  started: message('started'),
  completed: message('completed'),
  failed: message('failed'),
  cancelled: message('cancelled'),
};
const COUNTS = {
  started: message('{count} started'),
  completed: message('{count} completed'),
  failed: message('{count} failed'),
  cancelled: message('{count} cancelled'),
};
const TIME = new Intl.DateTimeFormat(LOCALE, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

export function minuteOf(pace: Pace): string {
  return pace.from ? TIME.format(new Date(pace.from)) : '';
}

export function seconds(value: number | null | undefined): string {
  return value === null || value === undefined ? '—' : duration(value * 1_000);
}

interface ChartProps {
  title: string;
  /** The hour in words. */
  hour: string;
  /** The whole chart in words. */
  summary: string;
  legend: [className: string, label: string][];
  /** What the top of the chart stands for, and its middle. */
  top: string;
  middle: string;
  minutes: Pace[];
  /** A minute in words. */
  describe: (pace: Pace) => string;
  children: (pace: Pace) => ReactNode;
}

/** Minutes between the marks of the time axis. */
const MARK_MIN = 15;

function Chart({ title, hour, summary, legend, top, middle, minutes, describe, children }: ChartProps) {
  const [at, setAt] = useState<number | null>(null);
  const last = minutes.length - 1;
  const chosen = at === null ? undefined : minutes[at];
  const marks = minutes.filter((_, nth) => (last - nth) % MARK_MIN === 0);
  return (
    <figure className="chart">
      <figcaption>
        <b>{title}</b>
        <span className="legend" aria-hidden="true">
          {legend.map(([className, label]) => (
            <span key={label} className={className}>
              {label}
            </span>
          ))}
        </span>
      </figcaption>
      <div className="plot">
        <div className="scale quiet" aria-hidden="true">
          <span>{top}</span>
          <span>{middle}</span>
          <span>{number(0)}</span>
        </div>
        <div
          className="canvas"
          role="img"
          aria-label={`${title}: ${summary}`}
          onPointerMove={({ currentTarget, clientX }) => {
            const { left, width } = currentTarget.getBoundingClientRect();
            const nth = Math.floor(((clientX - left) / width) * minutes.length);
            setAt(Math.min(last, Math.max(0, nth)));
          }}
          onPointerLeave={() => setAt(null)}
        >
          <svg viewBox={`0 0 ${minutes.length * COLUMN} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
            {[0.5, HEIGHT / 2, HEIGHT - 0.5].map((y) => (
              <line key={y} x1={0} x2={minutes.length * COLUMN} y1={y} y2={y} vectorEffect="non-scaling-stroke" />
            ))}
            {at === null ? null : <rect className="ground" x={at * COLUMN} width={COLUMN} height={HEIGHT} />}
            {minutes.map((pace, nth) => (
              <g key={pace.from} transform={`translate(${nth * COLUMN} 0)`}>
                {children(pace)}
              </g>
            ))}
          </svg>
        </div>
        {/* For the keyboard, and for screen readers; the pointer has the picture. */}
        <input
          type="range"
          className="minute"
          aria-label={t('Minute of the chart: {title}', { title })}
          aria-valuetext={chosen ? `${minuteOf(chosen)}: ${describe(chosen)}` : summary}
          min={0}
          max={last}
          value={at ?? last}
          onChange={(event) => setAt(event.currentTarget.valueAsNumber)}
          onFocus={() => setAt(at ?? last)}
          onBlur={() => setAt(null)}
        />
        <div className="axis quiet" aria-hidden="true">
          {marks.map((pace) => (
            <span key={pace.from}>{minuteOf(pace)}</span>
          ))}
        </div>
      </div>
      <p className="readout quiet" aria-hidden="true">
        {chosen ? `${minuteOf(chosen)}: ${describe(chosen)}` : t('Last hour: {summary}', { summary: hour })}
      </p>
    </figure>
  );
}

export function RunsChart({ hour, minutes }: { hour: Pace; minutes: Pace[] }) {
  const ended = (pace: Pace) => pace.completed + pace.failed + pace.cancelled;
  const most = Math.max(4, ...minutes.map((pace) => Math.max(pace.started, ended(pace))));
  // Its half is a whole number, too.
  const top = most + (most % 2);
  const share = (count: number) => (count / top) * HEIGHT;
  const words = (pace: Pace) =>
    list(
      (['started', ...ENDS] as const)
        .filter((kind) => pace[kind] > 0 || kind === 'started' || kind === 'completed')
        .map((kind) => t(COUNTS[kind], { count: pace[kind] })),
    );
  return (
    <Chart
      title={t('Runs per minute')}
      hour={words(hour)}
      summary={t('{runs} in the last hour', { runs: words(hour) })}
      legend={(['started', ...ENDS] as const).map((kind) => [kind, t(NAMES[kind])])}
      top={number(top)}
      middle={number(top / 2)}
      minutes={minutes}
      describe={words}
    >
      {(pace) => {
        let below = HEIGHT;
        return (
          <>
            {ENDS.map((end) => {
              const height = share(pace[end]);
              below -= height;
              return <rect key={end} className={end} x={2} y={below} width={COLUMN - 3} height={height} />;
            })}
            {pace.started > 0 ? (
              <rect className="started" y={HEIGHT - share(pace.started)} width={COLUMN} height={2.5} />
            ) : null}
          </>
        );
      }}
    </Chart>
  );
}

/** How long something took: each column is from the 50th to the 95th percentile, with a mark at the 99th. */
export function TimesChart(props: { title: string; of: Time; hour: Pace; minutes: Pace[] }) {
  const { title, of, hour, minutes } = props;
  const half = (pace: Pace) => pace[`${of}P50S`] ?? null;
  const most = (pace: Pace) => pace[`${of}P95S`] ?? null;
  const rare = (pace: Pace) => pace[`${of}P99S`] ?? null;
  const top = Math.max(1, ...minutes.map((pace) => rare(pace) ?? 0));
  const y = (value: number) => HEIGHT - (value / top) * (HEIGHT - 4);
  const words = (pace: Pace) =>
    half(pace) === null
      ? t('no runs')
      : t('p50 {p50}, p95 {p95}, p99 {p99}', {
          p50: seconds(half(pace)),
          p95: seconds(most(pace)),
          p99: seconds(rare(pace)),
        });
  return (
    <Chart
      title={title}
      hour={words(hour)}
      summary={words(hour)}
      legend={[
        ['half', 'p50'],
        ['most', 'p95'],
        ['rare', 'p99'],
      ]}
      top={seconds(top)}
      middle={seconds(top / 2)}
      minutes={minutes}
      describe={words}
    >
      {(pace) => {
        const [low, high, highest] = [half(pace), most(pace), rare(pace)];
        if (low === null || high === null || highest === null) return null;
        return (
          <>
            <rect className="rare" x={2} y={y(highest) - 2} width={COLUMN - 3} height={2} />
            <rect className="most" x={2} y={y(high) - 2} width={COLUMN - 3} height={y(low) - y(high) + 2} />
            <rect className="half" x={1} y={y(low) - 2} width={COLUMN - 1} height={4} />
          </>
        );
      }}
    </Chart>
  );
}
