// Shows a project's document tree, and next to it the selected document.
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { api, Problem, type Schemas } from '../../api/http';
import { useMe } from '../../api/me';
import { Failed } from '../../ui/Failed';
import { ReadOnlyKey, Waiting } from '../../ui/parts';
import { type Entity, projectKey } from '../board';
import { ProjectHead } from '../ProjectHead';
import { DocumentView } from './DocumentView';
import { type Node, treeKey } from './document';
import { Tree } from './Tree';
import '../work.css';
import { rich, t } from '../../ui/language';
import './documents.css';

/** None of them is chosen. */
export function DocumentsView() {
  const { projectId } = useParams({ from: '/work/$projectId/documents' });
  return (
    <Documents projectId={projectId}>
      {() => <p className="note quiet">{t('Select a document to read it.')}</p>}
    </Documents>
  );
}

export function OneDocument() {
  const { projectId, documentId } = useParams({ from: '/work/$projectId/documents/$documentId' });
  return (
    <Documents projectId={projectId}>
      {(documents) => <DocumentView key={documentId} projectId={projectId} id={documentId} documents={documents} />}
    </Documents>
  );
}

function Documents({
  projectId,
  children,
}: {
  projectId: string;
  children: (documents: readonly Node[]) => ReactNode;
}) {
  const mayWrite = useMe().scopes.includes('write');
  const project = useQuery({
    queryKey: projectKey(projectId),
    queryFn: ({ signal }) => api<Entity>(`/api/onto/projects/${projectId}`, { signal }),
  });
  const tree = useQuery({
    queryKey: treeKey(projectId),
    queryFn: ({ signal }) => api<Schemas['DocumentTree']>(`/api/onto/projects/${projectId}/documents`, { signal }),
  });
  if (project.error instanceof Problem && project.error.status === 404) {
    return (
      <main id="main" className="page wide">
        <h1>{t('Project not found')}</h1>
        <p>
          {t('It may have been deleted.')} <Link to="/work">{t('All projects')}</Link>
        </p>
      </main>
    );
  }
  return (
    <main id="main" className="page wide">
      {project.isPending ? <Waiting what={t('the project')} /> : null}
      {project.isError ? <Failed reading={project} /> : null}
      {project.data ? <ProjectHead project={project.data} /> : null}
      {project.data && tree.isPending ? <Waiting what={t('documents')} /> : null}
      {project.data && tree.isError ? <Failed reading={tree} /> : null}
      {project.data && tree.data ? (
        <div className="split documents">
          <Tree projectId={projectId} documents={tree.data.documents} />
          {tree.data.documents.length === 0 ? (
            <p className="note quiet">
              {rich('No documents yet. Agents create them with {tool}.', { tool: <code>create_onto_document</code> })}{' '}
              {mayWrite ? t('Enter a title to create one yourself.') : <ReadOnlyKey action={t('Creating documents')} />}
            </p>
          ) : (
            children(tree.data.documents)
          )}
        </div>
      ) : null}
    </main>
  );
}
