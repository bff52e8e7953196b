"""What stands beside the orders of one launch in a region and is kept from one to the next: the
owner's security group and the launch templates of its fleets.

Owns their making, once, and their removal: when the launch has ended, and the group, where
machines are, with the last of them. The group is made when there are machines to put into it, see
`admission`. Both are found by name and tag, so what a killed process left is used, or removed, by
the next one. None of it costs anything.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from providers.adapters.aws import tagging
from providers.adapters.aws.errors import Context
from providers.errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from providers.adapters.aws.client import Client
    from providers.model.machine import Order

SSH_PORT = 22
LIVE_STATES = ("pending", "running", "shutting-down", "stopping", "stopped")
TEMPLATE_S = 3_600.0
"""A launch is over by then; an older launch template, beside machines, was left behind."""


class _Region:
    """What this process knows to be there for one owner in one region."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.groups: dict[str, str] = {}
        """By VPC; empty where there is none."""
        self.linked: set[str] = set()
        """The groups that let EFA's traffic out."""
        self.named: dict[str, tuple[str, ...]] = {}
        """By order: the groups that it names. Sent again, it has to say the same."""
        self.launches: dict[str, set[str]] = {}
        """By cluster: the names of the templates that its launch uses."""
        self.bare: set[str] = set()
        """The clusters of which a look found nothing left, or nothing that could go."""

    def forget(self) -> None:
        """The group is looked up again; an order that named none still says so if it is sent again
        while a launch goes on.
        """
        self.groups.clear()
        self.linked.clear()
        unnamed = {token: groups for token, groups in self.named.items() if not groups}
        self.named = unnamed if self.launches else {}


class Kept:
    """Of one account, over all regions. Safe from several threads."""

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._lock = threading.Lock()
        self._regions: dict[tuple[str, str], _Region] = {}

    def _here(self, region: str, owner: str) -> _Region:
        with self._lock:
            return self._regions.setdefault((region, owner), _Region())

    # Making

    def standing(
        self, order: Order, vpc: str, context: Context, *, linked: bool
    ) -> tuple[str, ...]:
        """The owner's security group in the VPC, if it is there with its rules, as the order is to
        name it; else nothing. Looked up once a launch. `linked`: for machines with EFA.
        """
        here = self._here(context.region, order.label.owner)
        with here.lock:
            here.launches.setdefault(order.label.cluster, set())
            if order.token not in here.named:
                if vpc not in here.groups:
                    self._look(here, order.label.owner, vpc, context)
                known = here.groups[vpc]
                is_usable = bool(known) and (known in here.linked or not linked)
                here.named[order.token] = (known,) if is_usable else ()
            return here.named[order.token]

    def _look(self, here: _Region, owner: str, vpc: str, context: Context) -> None:
        found = self._found(owner, vpc, context)
        group_id = str(found.get("GroupId", ""))
        here.groups[vpc] = group_id if found.get("IpPermissions") else ""
        if _lets_itself_out(found):
            here.linked.add(group_id)

    def group(self, owner: str, cluster: str, vpc: str, context: Context, *, linked: bool) -> str:
        """The owner's security group in the VPC, made where there is none.

        It lets in ssh from anywhere and everything from itself, and lets out everything. The VPC's
        own group lets nobody in, so a machine in it could not be reached.
        """
        here = self._here(context.region, owner)
        with here.lock:
            here.launches.setdefault(cluster, set())
            known = here.groups.get(vpc, "")
            if known and (known in here.linked or not linked):
                return known
            found = self._found(owner, vpc, context)
            group_id = str(found.get("GroupId", "")) or self._made(owner, vpc, context)
            self._let_in(group_id, found, context)
            if linked:
                self._let_out(group_id, found, context)
                here.linked.add(group_id)
            here.groups[vpc] = group_id
            return group_id

    def _found(self, owner: str, vpc: str, context: Context) -> Mapping[str, Any]:
        """What EC2 says of the group; nothing where there is none."""
        wanted = {"group-name": tagging.group_name(owner), "vpc-id": vpc}
        filters = [{"Name": key, "Values": [value]} for key, value in wanted.items()]
        answer = self._client.call("describe_security_groups", context, Filters=filters)
        return next(iter(answer.get("SecurityGroups") or ()), {})

    def _made(self, owner: str, vpc: str, context: Context) -> str:
        name = tagging.group_name(owner)
        tags = tagging.tag_list({tagging.NAME: name, tagging.OWNER: owner})
        made = self._client.call(
            "create_security_group",
            context,
            GroupName=name,
            Description="ssh to the machines of one stack, and everything among them",
            VpcId=vpc,
            TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
        )
        return str(made["GroupId"])

    def _let_in(self, group_id: str, found: Mapping[str, Any], context: Context) -> None:
        if found.get("IpPermissions"):
            return
        ssh = {
            "IpProtocol": "tcp",
            "FromPort": SSH_PORT,
            "ToPort": SSH_PORT,
            "IpRanges": [{"CidrIp": "0.0.0.0/0", "Description": "ssh, by key only"}],
        }
        self.quietly(
            "InvalidPermission.Duplicate",
            "authorize_security_group_ingress",
            context,
            GroupId=group_id,
            IpPermissions=[_itself(group_id), ssh],
        )

    def _let_out(self, group_id: str, found: Mapping[str, Any], context: Context) -> None:
        """EFA's traffic is no IP traffic: "all addresses" does not hold it, the group itself does
        (EC2 user guide on EFA).
        """
        if _lets_itself_out(found):
            return
        self.quietly(
            "InvalidPermission.Duplicate",
            "authorize_security_group_egress",
            context,
            GroupId=group_id,
            IpPermissions=[_itself(group_id)],
        )

    def template(self, order: Order, template: Mapping[str, Any], context: Context) -> None:
        """Makes a fleet's launch template, once a launch. Its name says what is in it, so one that
        is there already is the same.
        """
        here = self._here(context.region, order.label.owner)
        name = str(template["LaunchTemplateName"])
        with here.lock:
            names = here.launches.setdefault(order.label.cluster, set())
            if name in names:
                return
            names.add(name)
            try:
                self.quietly(
                    "InvalidLaunchTemplateName.AlreadyExistsException",
                    "create_launch_template",
                    context,
                    **template,
                )
            except CloudError:
                names.discard(name)
                raise

    def forget(self, region: str, owner: str) -> None:
        """Something that was kept there is gone: the next order looks it up, or makes it, again."""
        here = self._here(region, owner)
        with here.lock:
            here.forget()
            for names in here.launches.values():
                names.clear()

    def quietly(self, fine: str, operation: str, context: Context, **parameters: Any) -> None:
        """One call, whose refusal by this code is success."""
        try:
            self._client.call(operation, context, **parameters)
        except CloudError as error:
            if error.code != fine:
                raise

    # Removing: best effort everywhere, since none of it costs anything and the next one tries again

    def places(self, owner: str, cluster: str) -> set[str]:
        """The regions in which this process keeps something for the cluster's launch."""
        with self._lock:
            return {
                region
                for (region, whose), here in self._regions.items()
                if whose == owner and cluster in here.launches
            }

    def ended(self, region: str, owner: str, cluster: str, *, bare: bool) -> None:
        """Removes what the cluster's launch kept there. `bare`: no order of the cluster stands
        there, so also what an earlier run of it left, and the group, if nobody else uses it. That
        is looked for once, until the cluster's next launch there.
        """
        here = self._here(region, owner)
        with here.lock:
            if cluster in here.launches:
                here.bare.discard(cluster)
            names = here.launches.pop(cluster, set())
            if not here.launches:
                here.forget()
            for name in names:
                self.attempt("delete_launch_template", region, LaunchTemplateName=name)
            if not bare or cluster in here.bare:
                return
            here.bare.add(cluster)
            of_cluster = {"Name": f"tag:{tagging.CLUSTER}", "Values": [cluster]}
            for item in self._templates(region, owner, of_cluster):
                if item["LaunchTemplateName"] not in names:
                    self._drop(region, item)
            if not here.launches and (groups := self._groups(region, owner)):
                self._drop_groups(region, owner, groups)

    def tidy(self, region: str, owner: str, cluster: str = "") -> None:
        """Deletes what the owner's machines no longer need in a region: launch templates and
        placement groups, and, with the last machine, the security group. Nothing of a launch that
        this process has under way for another cluster than the one whose machine has ended; one of
        another process makes again what it needs at this moment (see `error_codes.OWN`).
        """
        here = self._here(region, owner)
        with here.lock:
            here.launches.pop(cluster, None)
            here.forget()
            machines = self._machines(region, owner)
            used = {name for names in here.launches.values() for name in names}
            for item in self._templates(region, owner):
                old = self._now() - item["CreateTime"].timestamp() > TEMPLATE_S
                if item["LaunchTemplateName"] not in used and (old or machines == []):
                    self._drop(region, item)
            for item in self._placement_groups(region, owner):
                self.attempt("delete_placement_group", region, GroupName=item["GroupName"])
            if machines == [] and not here.launches:
                self._drop_groups(region, owner, self._groups(region, owner), machines)

    def tidy_empty(self, region: str, owner: str) -> None:
        """Tidies a region that holds none of the owner's machines, if anything of his is still
        there. Three calls where nothing is.
        """
        if (
            self._groups(region, owner)
            or any(self._templates(region, owner))
            or self._placement_groups(region, owner)
        ):
            self.tidy(region, owner)

    def attempt(self, operation: str, region: str, **parameters: Any) -> None:
        """One call, whose refusal changes nothing here."""
        try:
            self._client.call(operation, Context(f"aws {region}: tidying", region), **parameters)
        except CloudError:
            return

    def _drop(self, region: str, template: Mapping[str, Any]) -> None:
        self.attempt(
            "delete_launch_template", region, LaunchTemplateId=template["LaunchTemplateId"]
        )

    def _drop_groups(
        self,
        region: str,
        owner: str,
        groups: Collection[Mapping[str, Any]],
        machines: list[dict[str, Any]] | None = None,
    ) -> None:
        """Deletes the groups if the owner has no machine there."""
        if (self._machines(region, owner) if machines is None else machines) == []:
            for item in groups:
                self.attempt("delete_security_group", region, GroupId=item["GroupId"])

    def _machines(self, region: str, owner: str) -> list[dict[str, Any]] | None:
        live = {"Name": "instance-state-name", "Values": list(LIVE_STATES)}
        return self._owned("describe_instances", "Reservations", region, owner, live)

    def _templates(
        self, region: str, owner: str, *more: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        yield from (
            self._owned("describe_launch_templates", "LaunchTemplates", region, owner, *more) or ()
        )

    def _groups(self, region: str, owner: str) -> list[dict[str, Any]]:
        return self._owned("describe_security_groups", "SecurityGroups", region, owner) or []

    def _placement_groups(self, region: str, owner: str) -> list[dict[str, Any]]:
        return self._owned("describe_placement_groups", "PlacementGroups", region, owner) or []

    def _owned(
        self, operation: str, key: str, region: str, owner: str, *more: dict[str, Any]
    ) -> list[dict[str, Any]] | None:
        """What carries the owner's tag; None where it could not be listed, which is not nothing."""
        wanted = [{"Name": f"tag:{tagging.OWNER}", "Values": [owner]}, *more]
        context = Context(f"aws {region}: tidying", region)
        try:
            return [
                item
                for page in self._client.pages(operation, context, Filters=wanted)
                for item in page.get(key, ())
            ]
        except CloudError:
            return None


def _lets_itself_out(group: Mapping[str, Any]) -> bool:
    return any(rule.get("UserIdGroupPairs") for rule in group.get("IpPermissionsEgress") or ())


def _itself(group_id: str) -> dict[str, Any]:
    return {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group_id}]}
