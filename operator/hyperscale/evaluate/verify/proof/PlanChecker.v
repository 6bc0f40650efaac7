(* The checker of plans, proved: [checks] decides exactly [Consistent].
   In: limits and facts, the normal form of evaluate/verify/normal_form.py. Out: one boolean for each constraint, in its order.
   Coq 8.16, standard library only, no axioms. *)
Require Import List Bool NArith Lia Permutation.
Import ListNotations.
Open Scope N_scope.

Record Node := { n_id : N; n_takes : bool; n_gpus : N; n_bytes : N; n_domain : N; n_amounts : list N }.

Record Worker := { w_index : N; w_node : N; w_ranks : list N; w_gpus : N; w_share : N; w_bytes : N }.

Record Limits := {
  nodes : list Node; gpus_each : N; bytes_each : N; amounts_each : list N; workers_min : N; workers_max : N;
  apart : bool; one_domain : bool; pins : list (N * N); dead : list (N * N); unreachable : list (N * N);
  partitions_asked : N; tensors : N; quota : option N }.

Record Facts := {
  workers : list Worker; ring : list N; partitions : N; parts_by_rank : list (list N); schedule : list N;
  ranks_by_node : list (N * N) }.

Definition whole_share : N := 1000000000.
Definition share_slack : N := 1000.

(* Lists of numbers. *)

Fixpoint upto_from (start : N) (count : nat) : list N :=
  match count with O => [] | S rest => start :: upto_from (start + 1) rest end.

Definition upto (count : N) : list N := upto_from 0 (N.to_nat count).

Definition size {A} (l : list A) : N := N.of_nat (length l).

Definition sum (l : list N) : N := fold_right N.add 0 l.

Definition member (x : N) (l : list N) : bool := existsb (N.eqb x) l.

Definition pair_eqb (p q : N * N) : bool := (fst p =? fst q) && (snd p =? snd q).

Fixpoint list_eqb (a b : list N) : bool :=
  match a, b with
  | [], [] => true
  | x :: a', y :: b' => (x =? y) && list_eqb a' b'
  | _, _ => false
  end.

Fixpoint distinct (l : list N) : bool :=
  match l with [] => true | x :: rest => negb (member x rest) && distinct rest end.

Definition permutes (l : list N) (count : N) : bool := (size l =? count) && forallb (fun x => member x l) (upto count).

Lemma member_spec : forall x l, member x l = true <-> In x l.
Proof.
  intros. unfold member. rewrite existsb_exists. split.
  - intros [y [I E]]. apply N.eqb_eq in E. subst. assumption.
  - intros I. exists x. split; [assumption | apply N.eqb_refl].
Qed.

Lemma pair_eqb_spec : forall p q, pair_eqb p q = true <-> p = q.
Proof.
  intros [a b] [c d]. unfold pair_eqb. simpl. rewrite andb_true_iff, !N.eqb_eq. split.
  - intros [-> ->]. reflexivity.
  - intros E. inversion E. auto.
Qed.

Lemma pair_member_spec : forall p l, existsb (pair_eqb p) l = true <-> In p l.
Proof.
  intros. rewrite existsb_exists. split.
  - intros [q [I E]]. apply pair_eqb_spec in E. subst. assumption.
  - intros I. exists p. split; [assumption | now apply pair_eqb_spec].
Qed.

Lemma list_eqb_spec : forall a b, list_eqb a b = true <-> a = b.
Proof.
  induction a as [| x a IH]; destruct b as [| y b]; simpl; split; intros H; try discriminate; try reflexivity.
  - apply andb_true_iff in H. destruct H as [E R]. apply N.eqb_eq in E. apply IH in R. subst. reflexivity.
  - inversion H; subst. rewrite N.eqb_refl. simpl. now apply IH.
Qed.

Lemma distinct_spec : forall l, distinct l = true <-> NoDup l.
Proof.
  induction l as [| x l IH]; simpl; split; intros H.
  - constructor.
  - reflexivity.
  - apply andb_true_iff in H. destruct H as [A B]. constructor.
    + intros I. apply member_spec in I. rewrite I in A. discriminate.
    + now apply IH.
  - inversion H; subst. apply andb_true_iff. split.
    + destruct (member x l) eqn:E; [apply member_spec in E; contradiction | reflexivity].
    + now apply IH.
Qed.

Lemma upto_from_in : forall count start x, In x (upto_from start count) <-> start <= x /\ x < start + N.of_nat count.
Proof.
  induction count as [| count IH]; intros start x; simpl; [lia |].
  rewrite IH. split; intros H; lia.
Qed.

Lemma upto_from_nodup : forall count start, NoDup (upto_from start count).
Proof.
  induction count as [| count IH]; intros start; simpl; constructor.
  - rewrite upto_from_in. lia.
  - apply IH.
Qed.

Lemma upto_from_length : forall count start, length (upto_from start count) = count.
Proof. induction count as [| count IH]; intros start; simpl; [reflexivity | now rewrite IH]. Qed.

Lemma upto_in : forall count x, In x (upto count) <-> x < count.
Proof. intros. unfold upto. rewrite upto_from_in. rewrite N2Nat.id. lia. Qed.

Lemma permutes_spec : forall l count, permutes l count = true <-> Permutation (upto count) l.
Proof.
  intros l count. unfold permutes, size. rewrite andb_true_iff, N.eqb_eq, forallb_forall. split.
  - intros [L A]. apply NoDup_Permutation_bis.
    + apply upto_from_nodup.
    + unfold upto. rewrite upto_from_length. lia.
    + intros x I. apply member_spec. auto.
  - intros P. split.
    + apply Permutation_length in P. unfold upto in P. rewrite upto_from_length in P. lia.
    + intros x I. apply member_spec. eapply Permutation_in; eassumption.
Qed.

(* Workers and nodes. *)

Definition stays (c : Limits) (w : Worker) : bool := existsb (pair_eqb (w_index w, w_node w)) (pins c).

Definition arriving (c : Limits) (p : Facts) : list Worker := filter (fun w => negb (stays c w)) (workers p).

Definition on (n : N) (l : list Worker) : list Worker := filter (fun w => w_node w =? n) l.

Definition total_gpus (l : list Worker) : N := sum (map w_gpus l).

Definition all_ranks (p : Facts) : list N := flat_map w_ranks (workers p).

Definition places (p : Facts) : list N := map w_node (workers p).

(* For every arriving worker and its node. *)
Definition each_arrival (f : Worker -> Node -> bool) (c : Limits) (p : Facts) : bool :=
  forallb (fun w => forallb (fun n => negb (n_id n =? w_node w) || f w n) (nodes c)) (arriving c p).

Definition EachArrival (F : Worker -> Node -> Prop) (c : Limits) (p : Facts) : Prop :=
  forall w n, In w (workers p) -> ~ In (w_index w, w_node w) (pins c) -> In n (nodes c) -> n_id n = w_node w -> F w n.

Lemma stays_spec : forall c w, stays c w = true <-> In (w_index w, w_node w) (pins c).
Proof. intros. apply pair_member_spec. Qed.

Lemma arriving_in : forall c p w, In w (arriving c p) <-> In w (workers p) /\ ~ In (w_index w, w_node w) (pins c).
Proof.
  intros. unfold arriving. rewrite filter_In. split; intros [I N]; split; auto.
  - intros S. apply stays_spec in S. rewrite S in N. discriminate.
  - destruct (stays c w) eqn:E; [apply stays_spec in E; contradiction | reflexivity].
Qed.

Lemma each_arrival_spec : forall f F c p, (forall w n, f w n = true <-> F w n) ->
  (each_arrival f c p = true <-> EachArrival F c p).
Proof.
  intros f F c p R. unfold each_arrival, EachArrival. rewrite forallb_forall. split.
  - intros H w n I A J E. specialize (H w). rewrite arriving_in in H. specialize (H (conj I A)).
    rewrite forallb_forall in H. specialize (H n J). apply N.eqb_eq in E. rewrite E in H. simpl in H. now apply R.
  - intros H w I. apply arriving_in in I. destruct I as [I A]. apply forallb_forall. intros n J.
    destruct (n_id n =? w_node w) eqn:E; simpl; [| reflexivity]. apply R. apply N.eqb_eq in E. now apply (H w n).
Qed.

(* The constraints: what each asks, and the function that decides it. *)

Definition Ordered (p : Facts) := map w_index (workers p) = upto (size (workers p)).
Definition ordered (p : Facts) := list_eqb (map w_index (workers p)) (upto (size (workers p))).

Definition Count (c : Limits) (p : Facts) :=
  1 <= size (workers p) /\ workers_min c <= size (workers p) /\ size (workers p) <= workers_max c.
Definition count (c : Limits) (p : Facts) :=
  (1 <=? size (workers p)) && (workers_min c <=? size (workers p)) && (size (workers p) <=? workers_max c).

Definition Ranks (p : Facts) := all_ranks p = upto (total_gpus (workers p)).
Definition ranks (p : Facts) := list_eqb (all_ranks p) (upto (total_gpus (workers p))).

Definition Gpus (c : Limits) (p : Facts) :=
  forall w, In w (workers p) -> w_gpus w = gpus_each c /\ size (w_ranks w) = gpus_each c.
Definition gpus (c : Limits) (p : Facts) :=
  forallb (fun w => (w_gpus w =? gpus_each c) && (size (w_ranks w) =? gpus_each c)) (workers p).

Definition Placed (c : Limits) (p : Facts) := forall w, In w (workers p) -> In (w_node w) (map n_id (nodes c)).
Definition placed (c : Limits) (p : Facts) := forallb (fun w => member (w_node w) (map n_id (nodes c))) (workers p).

Definition Pinned (c : Limits) (p : Facts) :=
  forall pin, In pin (pins c) -> In pin (map (fun w => (w_index w, w_node w)) (workers p)).
Definition pinned (c : Limits) (p : Facts) :=
  forallb (fun pin => existsb (pair_eqb pin) (map (fun w => (w_index w, w_node w)) (workers p))) (pins c).

Definition Open (c : Limits) (p : Facts) := EachArrival (fun _ n => n_takes n = true) c p.
Definition open (c : Limits) (p : Facts) := each_arrival (fun _ n => n_takes n) c p.

Definition Capacity (c : Limits) (p : Facts) :=
  forall n, In n (nodes c) -> total_gpus (on (n_id n) (arriving c p)) <= n_gpus n.
Definition capacity (c : Limits) (p : Facts) :=
  forallb (fun n => total_gpus (on (n_id n) (arriving c p)) <=? n_gpus n) (nodes c).

Definition Memory (c : Limits) (p : Facts) := EachArrival (fun w n => bytes_each c <= n_bytes n /\ w_bytes w <= n_bytes n) c p.
Definition memory (c : Limits) (p : Facts) :=
  each_arrival (fun w n => (bytes_each c <=? n_bytes n) && (w_bytes w <=? n_bytes n)) c p.

Definition Amounts (c : Limits) (p : Facts) :=
  forall n, In n (nodes c) ->
  Forall (fun pair => size (on (n_id n) (arriving c p)) * fst pair <= snd pair) (combine (amounts_each c) (n_amounts n)).
Definition amounts (c : Limits) (p : Facts) :=
  forallb (fun n => let arrivals := size (on (n_id n) (arriving c p)) in
    forallb (fun pair => arrivals * fst pair <=? snd pair) (combine (amounts_each c) (n_amounts n))) (nodes c).

Definition Apart (c : Limits) (p : Facts) := apart c = true -> NoDup (places p).
Definition apart_ok (c : Limits) (p : Facts) := negb (apart c) || distinct (places p).

Definition domains (c : Limits) (p : Facts) : list N :=
  flat_map (fun w => map n_domain (filter (fun n => n_id n =? w_node w) (nodes c))) (workers p).
Definition Domain (c : Limits) (p : Facts) :=
  one_domain c = true -> forall a b, In a (domains c p) -> In b (domains c p) -> a = b /\ a <> 0.
Definition domain (c : Limits) (p : Facts) :=
  negb (one_domain c) || match domains c p with [] => true | d :: rest => negb (d =? 0) && forallb (N.eqb d) rest end.

Definition DeadLinks (c : Limits) (p : Facts) :=
  forall a b, In (a, b) (dead c) -> In a (places p) -> In b (places p) ->
  ~ In a (map w_node (arriving c p)) /\ ~ In b (map w_node (arriving c p)).
Definition dead_links (c : Limits) (p : Facts) :=
  forallb (fun pair => negb (member (fst pair) (places p) && member (snd pair) (places p) &&
    (member (fst pair) (map w_node (arriving c p)) || member (snd pair) (map w_node (arriving c p))))) (dead c).

Definition Ring (p : Facts) := Permutation (upto (size (workers p))) (ring p).
Definition ring_ok (p : Facts) := permutes (ring p) (size (workers p)).

Definition stop (p : Facts) (index : N) : list N :=
  match find (fun w => w_index w =? index) (workers p) with Some w => [w_node w] | None => [] end.
Definition stops (p : Facts) : list N := flat_map (stop p) (ring p).
Definition rotated (l : list N) : list N := match l with [] => [] | x :: rest => rest ++ [x] end.
Definition hops (p : Facts) : list (N * N) := combine (stops p) (rotated (stops p)).
Definition Hops (c : Limits) (p : Facts) := forall hop, In hop (hops p) -> ~ In hop (unreachable c).
Definition hops_ok (c : Limits) (p : Facts) := forallb (fun hop => negb (existsb (pair_eqb hop) (unreachable c))) (hops p).

Definition wanted_partitions (c : Limits) (p : Facts) : N :=
  if partitions_asked c =? 0 then total_gpus (workers p) else partitions_asked c.
Definition Partitions (c : Limits) (p : Facts) := partitions p = wanted_partitions c p.
Definition partitions_ok (c : Limits) (p : Facts) := partitions p =? wanted_partitions c p.

(* Cover and disjointness at once: together the ranks hold 0 to count - 1, each once. *)
Definition Cover (p : Facts) := Permutation (upto (partitions p)) (concat (parts_by_rank p)).
Definition cover (p : Facts) := permutes (concat (parts_by_rank p)) (partitions p).

Definition Even (p : Facts) :=
  size (parts_by_rank p) = total_gpus (workers p) /\
  forall parts, In parts (parts_by_rank p) -> size parts * total_gpus (workers p) = partitions p.
Definition even (p : Facts) :=
  (size (parts_by_rank p) =? total_gpus (workers p)) &&
  forallb (fun parts => size parts * total_gpus (workers p) =? partitions p) (parts_by_rank p).

Definition Schedule (c : Limits) (p : Facts) := Permutation (upto (tensors c)) (schedule p).
Definition schedule_ok (c : Limits) (p : Facts) := permutes (schedule p) (tensors c).

Definition Quota (c : Limits) (p : Facts) := forall q, quota c = Some q -> total_gpus (arriving c p) <= q.
Definition quota_ok (c : Limits) (p : Facts) := match quota c with Some q => total_gpus (arriving c p) <=? q | None => true end.

Definition Shares (p : Facts) :=
  (forall w, In w (workers p) -> 0 < w_share w /\ w_share w <= whole_share + share_slack) /\
  whole_share <= sum (map w_share (workers p)) + share_slack /\ sum (map w_share (workers p)) <= whole_share + share_slack.
Definition shares (p : Facts) :=
  forallb (fun w => (0 <? w_share w) && (w_share w <=? whole_share + share_slack)) (workers p) &&
  ((whole_share <=? sum (map w_share (workers p)) + share_slack) && (sum (map w_share (workers p)) <=? whole_share + share_slack)).

Definition ranks_on (n : N) (p : Facts) : N := sum (map (fun w => size (w_ranks w)) (on n (workers p))).
Definition Tally (p : Facts) :=
  NoDup (map fst (ranks_by_node p)) /\
  (forall entry, In entry (ranks_by_node p) -> In (fst entry) (places p) /\ snd entry = ranks_on (fst entry) p) /\
  (forall n, In n (places p) -> In n (map fst (ranks_by_node p))).
Definition tally (p : Facts) :=
  distinct (map fst (ranks_by_node p)) &&
  (forallb (fun entry => member (fst entry) (places p) && (snd entry =? ranks_on (fst entry) p)) (ranks_by_node p) &&
   forallb (fun n => member n (map fst (ranks_by_node p))) (places p)).

(* Each function decides its constraint. *)

Ltac bools := repeat (rewrite andb_true_iff || rewrite N.eqb_eq || rewrite N.leb_le || rewrite N.ltb_lt || rewrite member_spec).

Lemma ordered_spec : forall p, ordered p = true <-> Ordered p.
Proof. intros. apply list_eqb_spec. Qed.

Lemma count_spec : forall c p, count c p = true <-> Count c p.
Proof. intros. unfold count, Count. bools. tauto. Qed.

Lemma ranks_spec : forall p, ranks p = true <-> Ranks p.
Proof. intros. apply list_eqb_spec. Qed.

Lemma gpus_spec : forall c p, gpus c p = true <-> Gpus c p.
Proof.
  intros. unfold gpus, Gpus. rewrite forallb_forall.
  split; intros H w I; specialize (H w I); revert H; bools; auto.
Qed.

Lemma placed_spec : forall c p, placed c p = true <-> Placed c p.
Proof. intros. unfold placed, Placed. rewrite forallb_forall. split; intros H w I; apply member_spec; auto; now apply member_spec, H. Qed.

Lemma pinned_spec : forall c p, pinned c p = true <-> Pinned c p.
Proof. intros. unfold pinned, Pinned. rewrite forallb_forall. split; intros H pin I; apply pair_member_spec; auto. Qed.

Lemma open_spec : forall c p, open c p = true <-> Open c p.
Proof. intros. apply each_arrival_spec. tauto. Qed.

Lemma capacity_spec : forall c p, capacity c p = true <-> Capacity c p.
Proof. intros. unfold capacity, Capacity. rewrite forallb_forall. split; intros H n I; apply N.leb_le; auto. Qed.

Lemma memory_spec : forall c p, memory c p = true <-> Memory c p.
Proof. intros. apply each_arrival_spec. intros. bools. tauto. Qed.

Lemma amounts_spec : forall c p, amounts c p = true <-> Amounts c p.
Proof.
  intros. unfold amounts, Amounts. rewrite forallb_forall. split; intros H n I; specialize (H n I).
  - apply Forall_forall. intros pair J. rewrite forallb_forall in H. apply N.leb_le. now apply H.
  - apply forallb_forall. intros pair J. rewrite Forall_forall in H. apply N.leb_le. now apply H.
Qed.

Lemma apart_spec : forall c p, apart_ok c p = true <-> Apart c p.
Proof.
  intros. unfold apart_ok, Apart. destruct (apart c); simpl.
  - rewrite distinct_spec. tauto.
  - split; intros; [discriminate | reflexivity].
Qed.

Lemma domain_spec : forall c p, domain c p = true <-> Domain c p.
Proof.
  intros. unfold domain, Domain. destruct (one_domain c); simpl; [| split; intros; [discriminate | reflexivity]].
  destruct (domains c p) as [| d rest]; [split; auto; intros _ _ a b I; inversion I |].
  rewrite andb_true_iff, negb_true_iff, N.eqb_neq, forallb_forall. split.
  - intros [Z A] _ a b I J.
    assert (S : forall x, In x (d :: rest) -> d = x) by (intros x [E | K]; [assumption | now apply N.eqb_eq, A]).
    rewrite <- (S a I), <- (S b J). auto.
  - intros H. specialize (H eq_refl). split.
    + apply (H d d); now left.
    + intros x I. apply N.eqb_eq. apply (H d x); [now left | now right].
Qed.

Lemma dead_links_spec : forall c p, dead_links c p = true <-> DeadLinks c p.
Proof.
  intros. unfold dead_links, DeadLinks. rewrite forallb_forall. split.
  - intros H a b I A B. specialize (H (a, b) I). simpl in H. apply negb_true_iff in H.
    apply member_spec in A. apply member_spec in B. rewrite A, B in H. simpl in H. apply orb_false_iff in H. destruct H as [X Y].
    split; intros J; apply member_spec in J; congruence.
  - intros H [a b] I. simpl. apply negb_true_iff.
    destruct (member a (places p)) eqn:A; [| reflexivity]. destruct (member b (places p)) eqn:B; [| reflexivity]. simpl.
    apply member_spec in A. apply member_spec in B. destruct (H a b I A B) as [X Y]. apply orb_false_iff.
    split; match goal with |- ?m = false => destruct m eqn:E; [apply member_spec in E; contradiction | reflexivity] end.
Qed.

Lemma ring_spec : forall p, ring_ok p = true <-> Ring p.
Proof. intros. apply permutes_spec. Qed.

Lemma hops_spec : forall c p, hops_ok c p = true <-> Hops c p.
Proof.
  intros. unfold hops_ok, Hops. rewrite forallb_forall. split; intros H hop I.
  - specialize (H hop I). apply negb_true_iff in H. intros J. apply pair_member_spec in J. congruence.
  - apply negb_true_iff. destruct (existsb (pair_eqb hop) (unreachable c)) eqn:E; [| reflexivity].
    apply pair_member_spec in E. now apply H in E.
Qed.

Lemma partitions_spec : forall c p, partitions_ok c p = true <-> Partitions c p.
Proof. intros. apply N.eqb_eq. Qed.

Lemma cover_spec : forall p, cover p = true <-> Cover p.
Proof. intros. apply permutes_spec. Qed.

Lemma even_spec : forall p, even p = true <-> Even p.
Proof.
  intros. unfold even, Even. rewrite andb_true_iff, N.eqb_eq, forallb_forall.
  split; intros [L H]; split; auto; intros parts I; apply N.eqb_eq; auto; now apply N.eqb_eq, H.
Qed.

Lemma schedule_spec : forall c p, schedule_ok c p = true <-> Schedule c p.
Proof. intros. apply permutes_spec. Qed.

Lemma quota_spec : forall c p, quota_ok c p = true <-> Quota c p.
Proof.
  intros. unfold quota_ok, Quota. destruct (quota c) as [q |].
  - rewrite N.leb_le. split; [intros H r E; inversion E; subst; assumption | auto].
  - split; [intros _ r E; discriminate | reflexivity].
Qed.

Lemma shares_spec : forall p, shares p = true <-> Shares p.
Proof.
  intros. unfold shares, Shares. rewrite !andb_true_iff, !N.leb_le, forallb_forall. split; intros [H S]; split; auto; intros w I.
  - specialize (H w I). revert H. bools. auto.
  - bools. now apply H.
Qed.

Lemma tally_spec : forall p, tally p = true <-> Tally p.
Proof.
  intros. unfold tally, Tally. rewrite !andb_true_iff, distinct_spec, !forallb_forall. split.
  - intros [D [E P]]. split; [assumption | split].
    + intros entry I. specialize (E entry I). revert E. bools. auto.
    + intros n I. apply member_spec. auto.
  - intros [D [E P]]. split; [assumption | split].
    + intros entry I. bools. auto.
    + intros n I. apply member_spec. auto.
Qed.

(* All together. *)

Record Consistent (c : Limits) (p : Facts) : Prop := {
  is_ordered : Ordered p; is_count : Count c p; is_ranks : Ranks p; is_gpus : Gpus c p; is_placed : Placed c p;
  is_pinned : Pinned c p; is_open : Open c p; is_capacity : Capacity c p; is_memory : Memory c p; is_amounts : Amounts c p;
  is_apart : Apart c p; is_domain : Domain c p; is_dead_links : DeadLinks c p; is_ring : Ring p; is_hops : Hops c p;
  is_partitions : Partitions c p; is_cover : Cover p; is_even : Even p; is_schedule : Schedule c p; is_quota : Quota c p;
  is_shares : Shares p; is_tally : Tally p }.

Definition checks (c : Limits) (p : Facts) : list bool :=
  [ordered p; count c p; ranks p; gpus c p; placed c p; pinned c p; open c p; capacity c p; memory c p; amounts c p; apart_ok c p;
   domain c p; dead_links c p; ring_ok p; hops_ok c p; partitions_ok c p; cover p; even p; schedule_ok c p; quota_ok c p; shares p;
   tally p].

Definition check (c : Limits) (p : Facts) : bool := forallb (fun x => x) (checks c p).

Lemma check_all : forall c p, check c p = true <->
  ordered p = true /\ count c p = true /\ ranks p = true /\ gpus c p = true /\ placed c p = true /\ pinned c p = true /\
  open c p = true /\ capacity c p = true /\ memory c p = true /\ amounts c p = true /\ apart_ok c p = true /\ domain c p = true /\
  dead_links c p = true /\ ring_ok p = true /\ hops_ok c p = true /\ partitions_ok c p = true /\ cover p = true /\ even p = true /\
  schedule_ok c p = true /\ quota_ok c p = true /\ shares p = true /\ tally p = true.
Proof. intros. unfold check, checks. cbn [forallb]. rewrite !andb_true_iff. tauto. Qed.

(* Sound (->) and complete (<-): the checker accepts exactly the consistent plans. *)
Theorem check_correct : forall c p, check c p = true <-> Consistent c p.
Proof.
  intros c p. rewrite check_all.
  rewrite ordered_spec, count_spec, ranks_spec, gpus_spec, placed_spec, pinned_spec, open_spec, capacity_spec, memory_spec, amounts_spec,
    apart_spec, domain_spec, dead_links_spec, ring_spec, hops_spec, partitions_spec, cover_spec, even_spec, schedule_spec, quota_spec,
    shares_spec, tally_spec.
  split.
  - intros (H1 & H2 & H3 & H4 & H5 & H6 & H7 & H8 & H9 & H10 & H11 & H12 & H13 & H14 & H15 & H16 & H17 & H18 & H19 & H20 & H21 & H22).
    constructor; assumption.
  - intros []. repeat (split; [assumption |]). assumption.
Qed.

(* What the constraints mean together. *)

Lemma flat_map_once : forall (l : list Worker) r, NoDup (flat_map w_ranks l) ->
  forall i j v w, nth_error l i = Some v -> nth_error l j = Some w -> In r (w_ranks v) -> In r (w_ranks w) -> i = j.
Proof.
  induction l as [| x l IH]; intros r D i j v w A B I J; [destruct i; discriminate |].
  simpl in D. assert (T : forall k y, nth_error l k = Some y -> In r (w_ranks y) -> In r (flat_map w_ranks l))
    by (intros k y E K; apply in_flat_map; exists y; split; [eapply nth_error_In; eassumption | assumption]).
  assert (X : In r (w_ranks x) -> ~ In r (flat_map w_ranks l)).
  { clear - D. induction (w_ranks x) as [| z zs IHz]; simpl in *; [tauto |]. inversion D; subst. intros [-> | K] M.
    - apply H1. apply in_or_app. now right.
    - now apply IHz. }
  assert (D' : NoDup (flat_map w_ranks l)) by (clear - D; induction (w_ranks x); simpl in D; [assumption | inversion D; auto]).
  destruct i as [| i], j as [| j]; simpl in A, B.
  - reflexivity.
  - inversion A; subst. exfalso. apply (X I). eapply T; eassumption.
  - inversion B; subst. exfalso. apply (X J). eapply T; eassumption.
  - f_equal. eapply IH; eassumption.
Qed.

(* One rank, one place: every rank below the number of GPUs is on exactly one worker. *)
Theorem one_rank_one_place : forall c p, Consistent c p -> forall r, r < total_gpus (workers p) ->
  exists i w, nth_error (workers p) i = Some w /\ In r (w_ranks w) /\
  forall j v, nth_error (workers p) j = Some v -> In r (w_ranks v) -> j = i.
Proof.
  intros c p [] r L. unfold Ranks, all_ranks in is_ranks0.
  assert (I : In r (flat_map w_ranks (workers p))) by (rewrite is_ranks0; now apply upto_in).
  apply in_flat_map in I. destruct I as [w [I J]]. apply In_nth_error in I. destruct I as [i E]. exists i, w.
  repeat split; auto. intros j v F K. eapply flat_map_once; try eassumption. rewrite is_ranks0. apply upto_from_nodup.
Qed.

(* Every partition is on some rank, and no partition is there twice. *)
Theorem partitions_disjoint : forall c p, Consistent c p ->
  NoDup (concat (parts_by_rank p)) /\ forall q, q < partitions p <-> In q (concat (parts_by_rank p)).
Proof.
  intros c p [] . unfold Cover in is_cover0. split.
  - eapply Permutation_NoDup; [eassumption | apply upto_from_nodup].
  - intros q. rewrite <- upto_in. split; intros I; [eapply Permutation_in | eapply Permutation_in; [apply Permutation_sym |]]; eassumption.
Qed.

Print Assumptions check_correct.
Print Assumptions one_rank_one_place.
Print Assumptions partitions_disjoint.
