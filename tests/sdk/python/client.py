"""The story of an A2A client, told with the official Python SDK.

It talks to an agent whose work depends on how a message's id begins: the worker of `examples/worker`. Each step prints one
JSON document, which `tests/sdk/story.rs` knows; what concerns the SDK's own types is asserted here.

In the environment, because other people on a machine can read arguments:

    A2A_URL, A2A_KEY   the agent's base URL, and a key
    A2A_TRANSPORT      JSONRPC, HTTP+JSON or GRPC
    A2A_KEY_DISABLED   the key of an agent that is disabled
    A2A_KEY_BLOCKED    the key of somebody whom the agent has blocked
    A2A_LIMITED_URL, A2A_LIMITED_KEY   the same of a relay that takes one call a minute

The relay has to allow webhooks that lead to this machine.
"""

import asyncio
import http.server
import json
import os
import re
import threading
import uuid

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.types import (
    AuthenticationInfo,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from google.protobuf.json_format import MessageToDict, ParseDict

URL, KEY, TRANSPORT = (os.environ[name] for name in ('A2A_URL', 'A2A_KEY', 'A2A_TRANSPORT'))
UNKNOWN_TASK = '01J00000000000000000000000'


class Key(CredentialService):
    """Gives a key for whatever scheme the agent's card asks for."""

    def __init__(self, key):
        self.key = key

    async def get_credentials(self, security_scheme_name, context):
        return self.key


class OtherVersion(grpc.aio.UnaryUnaryClientInterceptor):
    """Says another version than the SDK does, which over gRPC has no way to say so."""

    async def intercept_unary_unary(self, continuation, details, request):
        metadata = [(name, '0.3' if name == 'a2a-version' else value) for name, value in details.metadata]
        return await continuation(details._replace(metadata=grpc.aio.Metadata(*metadata)), request)


class Clients:
    """Clients of one agent, by one key, over the transport of this run."""

    def __init__(self, card, key):
        self.card, self.key = card, key

    def make(self, streaming=True, polling=False, channel_interceptors=()):
        config = ClientConfig(
            # The default gives up after five seconds, and a blocking call may take longer.
            httpx_client=httpx.AsyncClient(timeout=30),
            grpc_channel_factory=lambda url: grpc.aio.insecure_channel(url, interceptors=channel_interceptors),
            supported_protocol_bindings=[TRANSPORT],
            streaming=streaming,
            polling=polling,
        )
        return ClientFactory(config).create(self.card, [AuthInterceptor(Key(self.key))])

    async def send(self, message, polling=False, history_length=None):
        """One answer: after the agent's work, or at once."""
        client = self.make(streaming=False, polling=polling)
        configuration = SendMessageConfiguration(history_length=history_length)
        request = SendMessageRequest(message=message, configuration=configuration)
        [answer] = [answer async for answer in client.send_message(request)]
        await client.close()
        return getattr(answer, answer.WhichOneof('payload'))


async def clients(url, key):
    async with httpx.AsyncClient(timeout=30) as web:
        return Clients(await A2ACardResolver(web, url).get_agent_card(), key)


def message(kind, parts=(Part(text='Please do your work.'),), **more):
    return Message(message_id=f'{kind}-{uuid.uuid4()}', role=Role.ROLE_USER, parts=parts, **more)


def state(task):
    return TaskState.Name(task.status.state).removeprefix('TASK_STATE_').lower()


def text(parts):
    return '\n'.join(part.text for part in parts)


def said(task):
    return text(task.status.message.parts)


async def follow(stream):
    """Reads a stream to its end: how it began, what it brought, how the task stood at last."""
    first, artifacts, last = None, {}, None
    async for answer in stream:
        kind = answer.WhichOneof('payload')
        event = getattr(answer, kind)
        first = first or answer.DESCRIPTOR.fields_by_name[kind].json_name
        if kind == 'task':
            artifacts = {artifact.artifact_id: text(artifact.parts) for artifact in event.artifacts}
        if kind == 'artifact_update':
            artifacts[event.artifact.artifact_id] = text(event.artifact.parts)
        else:
            last = state(event)
    return {'first': first, 'artifacts': artifacts, 'last': last}


def done(step, **found):
    print(json.dumps({'step': step, **found}), flush=True)


async def main():
    frank = await clients(URL, KEY)
    await card(frank)
    await sending(frank)
    await streams(frank)
    await lists(frank)
    await questions(frank)
    await parts(frank)
    await cancelling(frank)
    await webhooks(frank)
    await errors(frank)
    await refusals(frank)


async def card(frank):
    public = frank.card
    done(
        'card',
        name=public.name,
        bindings=[interface.protocol_binding for interface in public.supported_interfaces],
        streaming=public.capabilities.streaming,
        push=public.capabilities.push_notifications,
    )
    client = frank.make()
    extended = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
    await client.close()
    assert extended.name == public.name
    [params] = [MessageToDict(extension.params) for extension in extended.capabilities.extensions]
    done('extended card', handle=params['handle'], role=params['role'])


async def sending(frank):
    task = await frank.send(message('tck-complete-task'), polling=True)
    done('send without waiting', state=state(task))

    task = await frank.send(message('tck-complete-task'))
    done('send and wait', state=state(task), said=said(task))

    answer = await frank.send(message('tck-message-response'))
    assert isinstance(answer, Message)
    done('direct answer', role=Role.Name(answer.role), said=text(answer.parts))


async def streams(frank):
    client = frank.make()
    stream = client.send_message(SendMessageRequest(message=message('tck-stream-001')))
    done('stream', **await follow(stream))

    # Cut off while the agent waits for an answer: the client goes away in the middle of its stream.
    cut = message('tck-input-required', context_id=str(uuid.uuid4()))
    async for answer in client.send_message(SendMessageRequest(message=cut)):
        event = getattr(answer, answer.WhichOneof('payload'))
        if state(event) == 'input_required':
            break
    await client.close()

    client = frank.make()
    [task] = (await client.list_tasks(ListTasksRequest(context_id=cut.context_id))).tasks
    stream = client.subscribe(SubscribeToTaskRequest(id=task.id))
    found = (await anext(stream)).task
    assert found.id == task.id
    await frank.send(message('tck-artifact-text', task_id=task.id), polling=True)
    done('subscribe again', state=state(found), then=await follow(stream))
    await client.close()


async def lists(frank):
    context_id = str(uuid.uuid4())
    sent = [(await frank.send(message('tck-complete-task', context_id=context_id))).id for _ in range(5)]
    client = frank.make()
    pages, token = [], ''
    while not pages or token:
        request = ListTasksRequest(context_id=context_id, page_size=2, page_token=token)
        page = await client.list_tasks(request)
        assert (page.page_size, page.total_size) == (2, 5), page
        pages.append([task.id for task in page.tasks])
        token = page.next_page_token
    await client.close()
    listed = [task for page in pages for task in page]
    assert listed == sent[::-1], (listed, sent)
    done('list', pages=[len(page) for page in pages])


async def questions(frank):
    task = await frank.send(message('tck-input-required'))
    question = {'state': state(task), 'said': said(task)}
    task = await frank.send(message('tck-complete-task', task_id=task.id, context_id=task.context_id))
    done('question', **question, then=state(task))

    client = frank.make()
    lengths = {}
    for asked in (None, 2, 0):
        task = await client.get_task(GetTaskRequest(id=task.id, history_length=asked))
        lengths[str(asked).lower()] = [Role.Name(message.role) for message in task.history]
    await client.close()
    done('history', lengths=lengths)


async def parts(frank):
    sent = [
        Part(text='Größe: 3 µm\n', media_type='text/markdown', metadata=ParseDict({'n': 1}, Part().metadata)),
        Part(raw=bytes(range(256)), filename='all.bin', media_type='application/octet-stream'),
        Part(url='https://example.com/a%20b?c=d', filename='a b', media_type='text/html'),
        ParseDict({'data': {'n': 42, 'half': 0.5, 'list': [True, None, 'x', {}]}}, Part()),
    ]
    task = await frank.send(message('tck-artifact-file', sent))
    client = frank.make()
    task = await client.get_task(GetTaskRequest(id=task.id))
    await client.close()
    assert list(task.history[0].parts) == sent, task.history[0]
    [[output]] = [artifact.parts for artifact in task.artifacts]
    done(
        'parts',
        sent=[part.WhichOneof('content') for part in sent],
        output=[output.raw.decode(), output.filename, output.media_type],
    )


async def cancelling(frank):
    task = await frank.send(message('tck-input-required'))
    client = frank.make()
    states = [state(await client.cancel_task(CancelTaskRequest(id=task.id))) for _ in range(2)]
    await client.close()
    done('cancel twice', states=states)


async def webhooks(frank):
    calls = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers['Content-Length']))
            calls.append((self.headers, json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    receiver = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    url = f'http://127.0.0.1:{receiver.server_port}/told'

    task = await frank.send(message('tck-input-required'))
    client = frank.make()
    kept = []
    for name in ('first', 'second'):
        authentication = AuthenticationInfo(scheme='Bearer', credentials=f'credentials of {name}')
        config = TaskPushNotificationConfig(
            task_id=task.id, id=name, url=url, token=f'token-{name}', authentication=authentication
        )
        created = await client.create_task_push_notification_config(config)
        named = GetTaskPushNotificationConfigRequest(task_id=task.id, id=name)
        assert await client.get_task_push_notification_config(named) == created
        kept.append([created.id, created.task_id == task.id, created.url == url, created.authentication.scheme])
        # What the relay was told in confidence it tells nobody.
        assert created.authentication.credentials == '', created
    listed = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task.id))
    first = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id='first')
    await client.delete_task_push_notification_config(first)
    left = await client.list_task_push_notification_configs(ListTaskPushNotificationConfigsRequest(task_id=task.id))
    await client.close()
    listed, left = ([config.id for config in configs.configs] for configs in (listed, left))
    done('webhooks', kept=kept, listed=listed, left=left)

    await frank.send(message('tck-artifact-text', task_id=task.id))
    for _ in range(1000):
        if calls and state_told(calls[-1][1]) == 'completed':
            break
        await asyncio.sleep(0.01)
    receiver.shutdown()
    [secrets] = {(headers['Authorization'], headers['X-A2A-Notification-Token']) for headers, _ in calls}
    kinds = [kind for _, told in calls for kind in told]
    done('told', kinds=kinds, last=state_told(calls[-1][1]), secrets=secrets)


def state_told(told):
    return told.get('statusUpdate', {}).get('status', {}).get('state', '').removeprefix('TASK_STATE_').lower()


async def errors(frank):
    task = await frank.send(message('tck-complete-task'))
    client = frank.make()

    async def subscribe():
        return [answer async for answer in client.subscribe(SubscribeToTaskRequest(id=task.id))]

    async def stream():
        sent = message('tck-complete-task', task_id=task.id)
        return [answer async for answer in client.send_message(SendMessageRequest(message=sent))]

    async def other_version():
        other = frank.make(channel_interceptors=[OtherVersion()])
        context = ClientCallContext(service_parameters={'A2A-Version': '0.3'})
        return await other.get_task(GetTaskRequest(id=task.id), context=context)

    cases = [
        ('a missing task', TaskNotFoundError, lambda: client.get_task(GetTaskRequest(id=UNKNOWN_TASK))),
        ('no task id', TaskNotFoundError, lambda: client.get_task(GetTaskRequest(id='nope'))),
        ('cancelling what has ended', TaskNotCancelableError, lambda: client.cancel_task(CancelTaskRequest(id=task.id))),
        (
            'a message to what has ended',
            UnsupportedOperationError,
            lambda: frank.send(message('tck-complete-task', task_id=task.id)),
        ),
        ('subscribing to what has ended', UnsupportedOperationError, subscribe),
        ('a stream of what has ended', UnsupportedOperationError, stream),
        ('an impossible page', InvalidParamsError, lambda: client.list_tasks(ListTasksRequest(page_size=1000))),
        ('another version', VersionNotSupportedError, other_version),
    ]
    for name, expected, call in cases:
        error = await refusal(name, call)
        assert type(error) is expected, (name, error)
    await client.close()
    done('errors', mapped=[name for name, _, _ in cases])


async def refusals(frank):
    """Whom the relay does not let in. None of it is an error of A2A: the SDK shows what its transport says."""
    ask = GetTaskRequest(id=UNKNOWN_TASK)
    stranger = Clients(frank.card, 'ah_live_' + 'a' * 32)
    disabled = Clients(frank.card, os.environ['A2A_KEY_DISABLED'])
    blocked = Clients(frank.card, os.environ['A2A_KEY_BLOCKED'])
    limited = await clients(os.environ['A2A_LIMITED_URL'], os.environ['A2A_LIMITED_KEY'])
    calls = {
        'a wrong key': lambda: stranger.make().get_task(ask),
        'a disabled agent': lambda: disabled.make().get_task(ask),
        'a blocked sender': lambda: blocked.send(message('tck-complete-task')),
        'too many calls': lambda: limited.make().get_task(ask),
    }
    assert type(await refusal('the one call', calls['too many calls'])) is TaskNotFoundError
    shown = {}
    for name, call in calls.items():
        error = await refusal(name, call)
        assert type(error) is A2AClientError, (name, error)
        shown[name] = re.match(r'(?:HTTP|JSON-RPC|gRPC) Error (\S+):', str(error)).group(1)
    done('refusals', shown=shown)


async def refusal(name, call):
    try:
        answer = await call()
    except Exception as error:
        return error
    raise AssertionError(f'{name} was not refused: {answer}')


asyncio.run(main())
